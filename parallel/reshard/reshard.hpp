#pragma once

// Moves tensors between two layouts without files. Some ranks hold parts of items, and the same or other ranks want
// other parts of them. The room plans which rank sends which elements to whom, and runs the plan by messages. It may
// include `checkpoint/index` for items and parts, `placement` for tensors on a mesh, `mesh` for agreements, and
// `common`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/reshard/plan.hpp>

namespace sinew::parallel {

/// The user tag of reshard's messages, unless ReshardOptions::tag says another one.
inline constexpr std::uint32_t kReshardTag = 0x52534844;

/// Equal on all ranks.
struct ReshardOptions {
  /// The most bytes of messages that a rank sends and receives at a time. At least 4,096.
  std::size_t bytes_in_flight = std::size_t{64} << 20;
  /// True: new values are collected in memory of their own, and copied into the wanted buffers when all ranks have all
  /// of theirs. If a rank dies before that, all wanted buffers keep their old values. It costs as much memory as the
  /// wanted parts of this rank. Held and wanted parts may then share buffers.
  /// False: new values are written directly. If a rank dies meanwhile, wanted buffers may have a mixture of values.
  bool keep_old = true;
  /// By rank of the communicator, the number of its host, such as World::cluster().ranks[r].host. Empty: ranks with
  /// equal host names share a host.
  std::vector<int> hosts{};
  std::uint32_t tag = kReshardTag;  ///< the program sends no messages with this tag meanwhile
};

/// A plan for repeated use, such as for the weights that a trainer gives to inference ranks after each step.
/// Lifetime: the communicator and the buffers outlive it. Held buffers are read, and wanted buffers written, in run().
class SINEW_API Resharder {
 public:
  /// Gathers what all ranks hold and want, and makes the plan. Collective.
  /// Shape:  as reshard().
  /// Errors: InvalidArgument on all ranks alike: a part that require_valid() refuses, options that differ, `hosts` of
  ///         another length, and the errors of plan_reshard().
  /// Cost:   each rank gets the descriptions of all ranks' parts, and sweeps over the runs of all parts. The memory for
  ///         messages, and for `keep_old`, is kept until the end of the Resharder.
  Resharder(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
            const ReshardOptions& options = {});
  Resharder(Resharder&&) noexcept;
  Resharder& operator=(Resharder&&) noexcept;
  ~Resharder();

  /// Fills the wanted parts with the values that the held parts have now. Collective.
  /// Errors: those of messages. PeerLost names the rank that died. With `keep_old`, the wanted buffers of a rank then
  ///         have all of their old values. If the rank died in the last call, a barrier, they may have all new ones.
  /// Cost:   the messages of the plan. With `keep_old` also a barrier and a copy of the wanted parts.
  void run();

  /// The plan is equal on all ranks, except that each rank keeps only the segments of its own messages.
  const ReshardPlan& plan() const noexcept;
  /// The bytes of memory that this rank holds for messages and for `keep_old`.
  std::size_t memory_bytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Fills the wanted parts of all ranks from the parts that ranks hold, for any two layouts. Ranks may hold, want, both
/// or neither. plan_reshard() tells which elements go where, and which dtypes can be converted. Collective.
/// Shape:  the ranks that hold an item describe it alike. A wanted item has the same name and shape; its dtype may
///         differ. Buffers are host memory. Parts that one rank wants have no element in common. Without `keep_old`, no
///         wanted buffer may be one that is held.
/// Errors: those of Resharder and of Resharder::run().
/// Cost:   those of Resharder and of Resharder::run(). Use a Resharder where the same parts move again.
SINEW_API void reshard(CallGroup all, std::span<const CheckpointPart> held, std::span<const CheckpointPart> wanted,
                       const ReshardOptions& options = {});

}  // namespace sinew::parallel
