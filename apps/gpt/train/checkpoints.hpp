#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/buddy_copies.hpp>
#include <sinew/parallel/checkpoint/carry.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>

#include "options.hpp"
#include "trainer.hpp"

namespace gpt {

/// Saves while training goes on, and goes on from what was saved. A save that fails is said on rank 0, and training
/// goes on without it.
/// Thread: the World's. All calls are collective.
class Checkpoints {
 public:
  Checkpoints(sinew::World& world, const Options& options, Trainer& trainer);

  /// Restores the newest checkpoint of --resume; returns the step to begin with. 0 where there is none and --save names
  /// the same directory.
  /// Errors: InvalidArgument where there is none, or it is of another seed; as load_checkpoint.
  std::int64_t resume();
  /// When ranks have died: as many go on as are left, from what all of them hold, `before` under another layout, or
  /// from the newest checkpoint of --save, then of --resume; returns the step to begin with. 0: there is none yet.
  /// Errors: InvalidArgument where neither names a folder to look in; as load_checkpoint.
  std::int64_t recover(Checkpoints* before);
  /// Fills the trainings `next` of all ranks with the state that the ranks of `all` hold together.
  /// `before` is the state that this rank holds; null: none. `next` is the training with which this rank goes on; null:
  /// none. Returns false, and changes nothing, if the ranks together do not hold the whole state of a step.
  /// Collective in `all`.
  static bool hand_over(sinew::World& all, Checkpoints* before, Checkpoints* next);
  /// Restores the newest checkpoint of --save, then of --resume. Returns the step to begin with. 0: there is none.
  std::int64_t recover_from_files();
  /// Which of those that are left are to go where so many have nothing to do (ranks_to_leave). `before`: as in recover.
  static std::vector<int> ranks_to_leave(sinew::World& left, Checkpoints* before, int leaving);
  /// Copies the state of each rank to its buddy, and returns when the copies have arrived. Does nothing without
  /// --buddy-copies. Errors: as BuddyCopies.
  void copy_to_buddies();
  /// The memory of all copies on this rank.
  std::size_t bytes_of_copies() const noexcept { return copies_ ? copies_->memory_bytes() : 0; }
  /// After each step: begins copies to buddies and a save if they are due, and moves a save in flight on.
  void after(std::int64_t step);
  /// After a step that is to be the last one: begins a save unless after() has begun one.
  void save(std::int64_t step);
  /// Waits for the last save. Whether it is there, or none was asked for.
  bool finish();

 private:
  /// The state with which this rank computes. `parts` stays as long as the state is used.
  sp::HeldState own(std::vector<sp::CheckpointPart>& parts);
  /// The same, and the copies of buddies on this rank. Nothing if `of` is null.
  static std::vector<sp::HeldState> held(Checkpoints* of, std::vector<sp::CheckpointPart>& parts);
  std::int64_t load(const std::string& folder, std::int64_t step);
  /// Of each kind of parameters: as parts_to_save, parts_to_load or parts_to_carry; and biases of routers.
  template <class PartsOf>
  std::vector<sp::CheckpointPart> parts(const PartsOf& parts_of);
  void begin(std::int64_t steps_done);
  /// Says on rank 0 that the last save has failed, if the call throws that.
  template <class Call>
  void or_complain(const Call& call);

  sinew::World* world_;
  const Options* options_;
  Trainer* trainer_;
  std::optional<sp::BuddyCopies> copies_;
  std::optional<sp::AsyncCheckpointer> saves_;  // from the first save on
  std::int64_t saving_ = 0;                     // the steps done in the last one
};

}  // namespace gpt
