#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>

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
  /// Errors: as Trainer.
  Training(sinew::World& world, Options options, const Text& text);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Instead of beginning as --resume says: goes on from where others, null where there are none, were when ranks died.
  /// Returns the step to go on with. Errors: as Checkpoints::recover.
  std::int64_t recover(Training* before);

  Checkpoints& checkpoints() noexcept { return checkpoints_; }

  /// Returns the program's exit code. Errors: as its parts; InvalidArgument on all ranks alike.
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
  bool is_recovered_ = false;
  std::vector<StepReport> reports_;
};

}  // namespace gpt
