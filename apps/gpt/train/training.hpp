#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  /// As recover, where the ranks of `all` hold the state, and not only those of this World. Collective in `all`.
  /// Without a whole state and without checkpoints, training begins anew.
  std::int64_t take_state(sinew::World& all, Training* before);

  Checkpoints& checkpoints() noexcept { return checkpoints_; }

  /// Returns the program's exit code, kSavedExitCode where a signal ended it and the checkpoint is there. `stops` is
  /// asked after each step, on all ranks alike. If it returns true, the training stops there, and the result is empty.
  /// Errors: as its parts; InvalidArgument on all ranks alike.
  std::optional<int> run(const std::function<bool()>& stops = {});

 private:
  std::int64_t go_on(std::int64_t first, Training* before);
  void begin();
  /// Returns true if all steps are done.
  bool steps(const std::function<bool()>& stops);
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

/// As Training::run. When ranks die, the others go on (surviving_job), as often as that happens. They go on from the
/// last step of which they together hold the whole state, otherwise from the newest checkpoint. A rank for which no
/// layout has a place ends with 0.
/// The launcher must not end the job with its first rank: `sinew-run --on-failure continue`.
/// Cost: ranks hold the state of both Worlds while one takes over from the other. The steps since the checkpoint.
int train_elastic(sinew::World& first, const Options& options, const Text& text, const sinew::StopRequest* stop);

/// Takes SIGTERM as a request to save and end. Null: there is no folder for checkpoints.
std::unique_ptr<sinew::StopRequest> stop_request(const Options& options);

/// The same in a job that also gains ranks (sinew-run --nodes MIN:MAX, or --spares N). Processes that wait join after
/// the step that runs, and get their state from the other ranks. The global batch stays (elastic_job), so the losses
/// are those of an undisturbed run. Where no state is left and there are no checkpoints, training begins anew.
/// Errors: InvalidArgument with the rules that are broken if the launcher's limits permit no number of ranks.
int train_growing(const Options& options, const Text& text);

/// The whole run: says what it does, trains, saves. Returns the program's exit code.
/// Errors: as its parts; InvalidArgument on all ranks alike.
int run(sinew::World& world, const Options& options, const Text& text);

/// The text that options ask for. It is empty if they ask for a plan only.
Text text_of(const Options& options);

}  // namespace gpt
