#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/shm/memory/group_states.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// One rank of the group as this rank sees it.
struct Member {
  const GroupState* group_state = nullptr;
  const std::byte* segment = nullptr;  ///< base of the rank's shared segment as mapped in this process
  HostWaker waker;
  pid_t pid = -1;
  bool same_process = false;
  std::uint64_t done = 0;  ///< the last call it is known to have finished reading
};

/// The ranks of one group with their group states, and the words that this rank writes into its own group state.
class Members {
 public:
  /// Collective over context.exchange: two rounds, whatever goes wrong. Errors: the same on all ranks.
  Members(HostPeers& host, GroupStates& group_states, const OffloadContext& context);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  int rank() const noexcept { return rank_; }
  /// Names ranks in errors.
  const Group& group() const noexcept { return group_; }
  int count() const noexcept { return static_cast<int>(members_.size()); }
  Member& operator[](int rank) noexcept { return members_[static_cast<std::size_t>(rank)]; }
  const Member& operator[](int rank) const noexcept { return members_[static_cast<std::size_t>(rank)]; }
  GroupState& mine() noexcept { return *group_state_; }
  HostPeers& host() const noexcept { return host_; }

  std::uint64_t stamp(std::uint64_t sequence) const noexcept { return salt_ | sequence; }
  /// Has the rank announced the call? Then its line may be read.
  bool announced(int rank, std::uint64_t sequence) const noexcept {
    return line_of(rank, sequence).stamp.load(std::memory_order_acquire) == stamp(sequence);
  }
  const FlagLine& line_of(int rank, std::uint64_t sequence) const noexcept { return slot_of(rank, sequence).line; }
  const Slot& slot_of(int rank, std::uint64_t sequence) const noexcept {
    return (*this)[rank].group_state->ring[sequence % kRing];
  }
  /// The same of what a rank passes on to its children in a tree.
  const Slot& result_of(int rank, std::uint64_t sequence) const noexcept {
    return (*this)[rank].group_state->results[sequence % kRing];
  }
  bool passed_on(int rank, std::uint64_t sequence) const noexcept {
    return result_of(rank, sequence).line.stamp.load(std::memory_order_acquire) == stamp(sequence);
  }

  /// Takes the `done` that came with an announcement.
  void learn_done(int rank, const FlagLine& line, std::uint64_t sequence) noexcept {
    Member& m = (*this)[rank];
    m.done = std::max(m.done, line.done_before(sequence));
  }
  /// Somebody knows that all ranks have finished reading that call.
  void learn_all_done(std::uint64_t sequence) noexcept { done_floor_ = std::max(done_floor_, sequence); }
  /// Have all others finished reading that call? Looks at their words only where what is known does not say so.
  bool all_done(std::uint64_t sequence) noexcept { return sequence <= done_floor_ || refresh_done(sequence); }
  /// A call that all others have finished reading, as far as announcements have told.
  std::uint64_t known_done() const noexcept {
    std::uint64_t least = kSequenceMask;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      if (static_cast<int>(r) != rank_) least = std::min(least, members_[r].done);
    }
    return std::max(least, done_floor_);
  }
  /// This rank has finished reading everybody's part of that call. It must not have closed: others go by that.
  void store_done(std::uint64_t sequence) noexcept {
    assert(sequence == kClosed || !closed(rank_));
    group_state_->done.value.store(stamp(sequence), std::memory_order_release);
    notify_all();
  }
  /// Has the rank left the group?
  bool closed(int rank) const noexcept {
    return left((*this)[rank].group_state->done.value.load(std::memory_order_acquire));
  }
  /// The status of a call that needed a rank which has left the group.
  Status left_during_call(int rank) const {
    return {Code::Aborted, group_.rank_text(rank) + " ended this communicator during the call", rank};
  }
  /// The status of a call that could not read a rank's memory. A rank that has left may have freed that memory.
  Status unread(int rank, int error_number) const;
  /// From now on this rank reads nobody's memory, and finishes no call any more. What it writes into its own memory
  /// comes after this, for whoever reads that meanwhile and then looks.
  void close() noexcept {
    store_done(kClosed);
    full_fence();
  }

  /// Threads of one process read each other's buffers where they lie, which their owners may free once a call has
  /// failed: a reader says so before it looks whether an owner has closed, an owner closes before it looks for readers.
  void set_reading(bool on) noexcept {
    if (!one_process_) return;
    group_state_->reading.value.store(on ? 1 : 0, std::memory_order_release);
    if (on) full_fence();
  }
  bool read_by_others() const noexcept;

  void notify_all() const noexcept {
    for (const HostWaker& w : wakers_) w.notify();
  }

  /// Can every pair of the group read ordinary memory of each other in place?
  bool direct() const noexcept { return why_not_direct_.empty(); }
  const std::string& why_not_direct() const noexcept { return why_not_direct_; }
  /// All of them threads of this process?
  bool one_process() const noexcept { return one_process_; }

 private:
  struct Card;
  void meet(const std::vector<Bytes>& cards, const OffloadContext& context);
  std::string try_direct_reads(const std::vector<Bytes>& cards) const;
  bool refresh_done(std::uint64_t sequence) noexcept;
  /// Has the rank with this `done` word left the group? A word with another stamp means that the rank has even freed
  /// its group state.
  bool left(std::uint64_t word) const noexcept {
    return (word & ~kSequenceMask) != salt_ || (word & kSequenceMask) == kClosed;
  }

  HostPeers& host_;
  GroupStates& group_states_;
  Group group_;
  int rank_;
  GroupState* group_state_ = nullptr;
  std::uint64_t salt_ = 0;
  std::uint64_t done_floor_ = 0;
  std::vector<Member> members_;
  std::vector<HostWaker> wakers_;  // of the others
  std::string why_not_direct_;
  bool one_process_ = false;
};

}  // namespace sinew::shm
