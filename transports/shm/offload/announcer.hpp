#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sinew/transports/shm/offload/call_ring.hpp>
#include <sinew/transports/shm/offload/facts.hpp>
#include <sinew/transports/shm/offload/members.hpp>
#include <sinew/transports/shm/offload/staging.hpp>
#include <sinew/transports/shm/offload/tree_calls.hpp>

namespace sinew::shm {

/// Announces this rank's calls to the others, and shows them its bytes: in the announcement, behind it, in the staging
/// slots, or where they lie in the user's memory.
class Announcer {
 public:
  /// All outlive it.
  Announcer(Members& members, const Facts& facts, CallRing& calls, TreeCalls& trees);

  /// Whether there is room for the next call, and the ranks whose results it carries have announced theirs.
  bool can_announce() noexcept;
  /// Announces calls while there is room. Returns how many.
  int announce_waiting() noexcept;
  /// A child in the tree of the next call that has made another call. The call is then not announced. -1: none.
  int differing_child() const noexcept { return differing_child_; }
  /// The bytes that this rank reads of the rank's contribution.
  const void* shown_by(const PendingCall& call, int rank) const noexcept;

 private:
  /// Shorter copies go neither past the caches nor by the string instruction, whatever the facts say.
  static constexpr std::uint64_t kLongBytes = 512;

  void announce(PendingCall& call) noexcept;
  void own_next(const PendingCall& call) noexcept;
  void show(PendingCall& call, Slot& slot) noexcept;
  void show_slot(PendingCall& call, Slot& slot) noexcept;
  void show_chunks(PendingCall& call, Slot& slot) noexcept;
  void show_parts(PendingCall& call, Slot& slot) noexcept;
  void copy_shown(const PendingCall& call, std::byte* to) const noexcept;
  void copy_blocks(const PendingCall& call, std::byte* to) const noexcept;
  void copy_for_others(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept {
    if (bytes >= kLongBytes) return copy_long(to, from, bytes);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_long(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept;
  std::uint64_t staged_bytes(const PendingCall& call) noexcept;
  std::byte* take_stage(std::uint64_t bytes, std::uint64_t sequence) noexcept;
  Access access_to(const void* memory, std::uint64_t bytes) const noexcept;
  std::uint64_t place_of(const void* memory, Access access) const noexcept;

  Members& members_;
  const Facts& facts_;
  CallRing& calls_;
  TreeCalls& trees_;
  Staging staging_;
  Staging::Place next_stage_;  // for the call that can be announced
  int differing_child_ = -1;
};

inline const void* Announcer::shown_by(const PendingCall& call, int rank) const noexcept {
  const int me = members_.rank();
  const Slot& slot = members_.slot_of(rank, call.sequence);
  const std::uint64_t at = call.blocks ? static_cast<std::uint64_t>(me) * call.bytes : 0;
  if (rank == me && !call.scales_inputs()) return call.in == nullptr ? nullptr : call.in + at;
  const std::uint64_t copied_at = at - (call.without_own && me > rank ? call.bytes : 0);
  if (call.protocol == Protocol::Inline) return slot.line.payload.data() + copied_at;
  if (call.protocol == Protocol::Lines) return slot.payload.data() + copied_at;
  Places places;
  std::memcpy(&places, slot.line.payload.data(), sizeof places);
  if (places.in_access == Access::Address) return reinterpret_cast<const std::byte*>(places.in) + at;
  return members_[rank].segment + places.in + (places.in_access == Access::Staged ? copied_at : at);
}

}  // namespace sinew::shm
