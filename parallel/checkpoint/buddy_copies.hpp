#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/carry.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// By rank: the buddy that keeps the copies of this rank. Each rank is the buddy of one other rank. It is a rank of
/// another host for as many ranks as possible. One rank alone is its own buddy.
/// hosts: by rank, a number for its host.
SINEW_API std::vector<int> choose_buddies(const std::vector<int>& hosts);

/// Keeps the state of each rank a second time in the memory of another rank, its buddy. State that ZeRO shards, or of
/// which a job has one replica, then outlives the death of its rank without a checkpoint.
///
///     BuddyCopies copies(world.communicator());
///     for (...) { ...; data.updated(); copies.copy({step, adam.steps(), parts_to_carry(data, adam)}); }
///     // When a rank has died: its survivors hand over their own state and what copies.held() adds.
///
/// A copy is sent in the background of the next step. Each copy belongs to one step. The copy before stays on all ranks
/// until every rank has received its new one. So when a rank dies, the other ranks together hold the whole state of the
/// last copy, or of the one before if the last one has not arrived. Both are lost only if the rank's buddy dies, too,
/// before the next copy. carry_over() finds the newest step that is whole.
/// Shape:    parts are in host memory. Those of a device come as HostCopies, after bring_down().
/// Thread:   the World's. A World of Threads::Multiple sends while the thread computes. Otherwise the next copy() sends
///           what is left.
/// Lifetime: ends before the communicator. The destructor waits for the messages in flight.
/// Cost:     each rank with S bytes of parts copies them in memory, and sends them to its buddy. It receives as much
///           from the rank whose buddy it is. An all_reduce of 32 bytes. 4 S of memory on the host: two steps of the
///           rank's own state, and two of the other rank's. With one rank there are no copies.
class SINEW_API BuddyCopies {
 public:
  /// Collective: ranks tell each other their hosts.
  explicit BuddyCopies(CallGroup all);
  ~BuddyCopies();
  BuddyCopies(const BuddyCopies&) = delete;
  BuddyCopies& operator=(const BuddyCopies&) = delete;

  /// Waits until the last copies of all ranks have arrived. Then it copies this state, and begins to send it. The parts
  /// may change when it returns. Collective.
  /// Errors: InvalidArgument on all ranks alike if their steps differ, or for a part that require_valid() refuses.
  ///         PeerLost if a rank has died. Then held() still has the older copies.
  void copy(const HeldState& state);
  /// Waits until the last copies of this rank have been sent and received. Errors: PeerLost if a rank has died.
  void finish();
  /// The copies on this rank that have arrived whole: of its own state and of the state of the rank whose buddy it is,
  /// of up to two steps each. They are for carry_over(), beside the state with which this rank computes. After an error
  /// no further call but this one is made.
  /// Lifetime: until the next call.
  std::vector<HeldState> held();

  /// The rank that keeps this rank's copies.
  int buddy() const noexcept { return buddy_; }
  /// The bytes that this rank has sent in the last copy.
  std::size_t bytes_of_copy() const noexcept;
  /// The memory of all copies on this rank.
  std::size_t memory_bytes() const noexcept;

 private:
  /// The state of one rank after one step.
  struct Copy {
    HeldState state{};  // its step is below 0 while the copy is not whole
    std::vector<CheckpointPart> parts;
    std::vector<std::byte> memory;

    /// Makes room for such parts.
    void lay_out(const std::vector<PartDescription>& described);
    /// The copy has arrived. The other facts of the state are those that the buddy's own state has.
    void complete(const HeldState& of_step);
  };

  /// Checks that ranks are about to copy the same step, and learns the parts of all ranks if they have changed.
  void agree(const HeldState& state);

  CallGroup all_;
  int buddy_ = 0;       // keeps this rank's copies
  int ward_ = 0;        // the rank whose copies this rank keeps
  std::size_t at_ = 0;  // the newest copies
  std::array<Copy, 2> own_, kept_;
  std::vector<PartDescription> own_parts_, kept_parts_;
  bool is_under_way_ = false;
  Work sent_, received_;
};

}  // namespace sinew::parallel
