#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/stop_request.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/tools/common/output_file.hpp>

#include "../text/text.hpp"
#include "checkpoints.hpp"
#include "metrics.hpp"
#include "options.hpp"
#include "trainer.hpp"

namespace gpt {

/// On rank 0's standard output, at once.
void say(const sinew::World& world, const std::string& text);

/// One World's training from its first step to its last: says what it does, trains, saves.
/// Thread:   the World's. All calls are collective.
/// Lifetime: ends before World and text.
class Training {
 public:
  /// `stop`: ends the training behind a step, with a checkpoint; null: nothing asks for that.
  /// Errors: as Trainer.
  Training(sinew::World& world, Options options, const Text& text, const sinew::StopRequest* stop);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Instead of beginning as --resume says: goes on from where others, null where there are none, were when ranks died.
  /// Returns the step to go on with. Errors: as Checkpoints::recover.
  std::int64_t recover(Training* before);

  Checkpoints& checkpoints() noexcept { return checkpoints_; }

  /// Returns the program's exit code, kSavedExitCode where a signal ended it and the checkpoint is there.
  /// Errors: as its parts; InvalidArgument on all ranks alike.
  int run();

 private:
  void begin();
  void steps();
  void say_memory();

  sinew::World& world_;
  Options options_;
  Trainer trainer_;
  Checkpoints checkpoints_;
  std::int64_t first_ = 0;
  const sinew::StopRequest* stop_;
  bool is_recovered_ = false;
  bool is_stopped_ = false;
  std::vector<StepReport> reports_;
  std::optional<sinew::tools::OutputFile> plot_;  // on rank 0
};

/// As Training::run; when ranks die the others go on, as often as that happens (surviving_job). From the last step
/// where what they hold together is whole, else from the newest checkpoint. A rank that no layout has a place for ends
/// with 0.
/// Under a launcher that does not end a job with its first rank: `sinew-run --on-failure continue`.
/// Cost: while one World takes over from another its ranks hold both; the steps since the checkpoint.
int train_elastic(sinew::World& first, const Options& options, const Text& text, const sinew::StopRequest* stop);

/// The whole run: says what it does, trains, saves. Returns the program's exit code.
/// Errors: as its parts; InvalidArgument on all ranks alike.
int run(sinew::World& world, const Options& options, const Text& text);

/// The text that options ask for. It is empty if they ask for a plan only.
Text text_of(const Options& options);

}  // namespace gpt
