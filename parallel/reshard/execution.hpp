#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/reshard/part_memory.hpp>
#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {

/// The way in which a plan is run. Equal on all ranks.
struct ReshardExecutionOptions {
  bool keep_old = true;    ///< see ReshardOptions
  std::uint32_t tag = 0;   ///< of the messages
  const char* label = "";  ///< of the calls in errors. It outlives the execution
};

/// A plan with the memory of this rank's parts. It runs the plan as often as it is asked to.
/// Lifetime: the communicator and the buffers of the parts outlive it.
class ReshardExecution {
 public:
  /// held, wanted: this rank's parts, from whose descriptions the plan is made. Allocates the memory that run() needs.
  ReshardExecution(CallGroup all, ReshardPlan plan, std::span<const CheckpointPart> held,
                   std::span<const CheckpointPart> wanted, const ReshardExecutionOptions& options);
  // The rounds point to messages of the plan.
  ReshardExecution(const ReshardExecution&) = delete;
  ReshardExecution& operator=(const ReshardExecution&) = delete;

  /// As Resharder::run(). Collective.
  void run();

  /// The plan, without the segments of other ranks' messages.
  const ReshardPlan& plan() const noexcept { return plan_; }
  /// As Resharder::memory_bytes().
  std::size_t memory_bytes() const noexcept;

 private:
  using Round = std::vector<const ReshardMessage*>;

  /// The parts from which a message is sent, or into which it is received.
  const PartMemory& parts_of(const ReshardMessage& message) const;
  /// The memory of the parts from which the message is sent, or into which it is received; null: it is packed.
  std::byte* memory_of(const ReshardMessage& message) const { return parts_of(message).whole(message.segments); }
  /// Starts the messages of a round.
  Work start(std::size_t round);
  /// Puts the packed messages of a round, which have come, into their places.
  void unpack_round(std::size_t round);

  CallGroup all_;
  ReshardExecutionOptions options_;
  ReshardPlan plan_;
  std::vector<CheckpointPart> wanted_;
  std::vector<std::vector<std::byte>> staged_;  // by wanted part, with keep_old
  PartMemory sources_, targets_;
  std::vector<Round> rounds_;                     // this rank's messages
  std::array<std::vector<std::byte>, 2> packed_;  // of even and odd rounds
};

}  // namespace sinew::parallel
