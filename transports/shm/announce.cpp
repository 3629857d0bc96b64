#include <algorithm>
#include <cstring>

#include <sinew/core/stream_copy.hpp>
#include <sinew/transports/shm/offload.hpp>

// The announcing half of ShmOffload: what a rank shows to the others, and where.
namespace sinew::shm {
namespace {

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) noexcept {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

/// Is there room for the next call in the ring, and in the staging slots if it needs one? Everybody must have finished
/// what was there, this rank too: it may be a source of its own.
bool ShmOffload::can_announce() noexcept {
  std::uint64_t must_be_done = announced_ > kRing ? announced_ - kRing : 0;
  if (call_at(announced_).way == Way::Slot) must_be_done = std::max(must_be_done, slot_used_by_[slot_calls_ % kSlots]);
  return must_be_done < head_ && members_.all_done(must_be_done);
}

int ShmOffload::announce_waiting() noexcept {
  int count = 0;
  for (; announced_ != next_ && can_announce(); ++announced_, ++count) announce(call_at(announced_));
  return count;
}

void ShmOffload::announce(PendingCall& call) noexcept {
  Slot& slot = members_.mine().ring[call.sequence % kRing];
  show(call, slot);
  slot.line.fingerprint = call.fingerprint;
  slot.line.history = call.history;
  slot.line.done = static_cast<std::uint32_t>(head_ - 1);
  slot.line.stamp.store(members_.stamp(call.sequence), std::memory_order_release);
  members_.notify_all();
}

void ShmOffload::show(PendingCall& call, Slot& slot) noexcept {
  Places places{};
  switch (call.way) {
    case Way::Inline: return copy_shown(call, slot.line.payload.data());
    case Way::Lines: return copy_shown(call, slot.payload.data());
    case Way::Slot: places = places_for_slot(call); break;
    case Way::Chunks: places = places_for_chunks(call); break;
  }
  std::memcpy(slot.line.payload.data(), &places, sizeof places);
}

void ShmOffload::copy_shown(const PendingCall& call, std::byte* to) const noexcept {
  if (call.shown == 0) return;
  if (call.scales_inputs()) {
    call.scaler(to, call.in, call.shown);
  } else if (call.shown >= facts_.stream_from_bytes) {
    stream_copy(to, call.in, call.shown);
    finish_streams();
  } else {
    std::memcpy(to, call.in, call.shown);
  }
}

Access ShmOffload::access_to(const void* memory, std::uint64_t bytes) const noexcept {
  const HostHeap& heap = members_.host().heap();
  if (bytes > 0 && heap.contains(memory) && heap.contains(static_cast<const std::byte*>(memory) + bytes - 1))
    return Access::Heap;
  return members_.one_process() ? Access::Address : Access::Staged;
}

std::uint64_t ShmOffload::place_of(const void* memory, Access access) const noexcept {
  return access == Access::Heap ? members_.host().heap().offset_of(memory) : reinterpret_cast<std::uint64_t>(memory);
}

Places ShmOffload::places_for_slot(PendingCall& call) noexcept {
  const std::size_t index = slot_calls_++ % kSlots;
  slot_used_by_[index] = call.sequence;
  if (call.shown == 0) return {};
  const bool written = call.collective != Collective::Broadcast &&
                       overlap(call.in, call.shown, call.out, std::max(call.shown, call.bytes));
  const Access access = access_to(call.in, call.shown);
  if (access != Access::Staged && !written && !call.scales_inputs()) {
    call.exposed = true;
    return {place_of(call.in, access), 0, 1.0, access, access};
  }
  std::byte* slot = reinterpret_cast<std::byte*>(&members_.mine()) + kSlotsAt + index * kSlotMostBytes;
  copy_shown(call, slot);
  return {members_.host().heap().offset_of(slot), 0, 1.0, Access::Staged, Access::Staged};
}

Places ShmOffload::places_for_chunks(PendingCall& call) noexcept {
  const bool in_place = call.in == call.out;
  const auto own = static_cast<std::uint64_t>(members_.rank()) * call.bytes;
  if (call.collective == Collective::AllGather && in_place && own > 0) {
    std::memmove(call.out + own, call.in, call.bytes);  // the others' blocks go where it was
    call.in = call.out + own;
  }
  const auto decide = [&](const void* memory, std::uint64_t bytes) {
    const Access access = access_to(memory, bytes);
    const std::uint64_t read = exchanges(call.collective) ? call.bytes : bytes;
    const bool direct = access == Access::Staged && members_.direct() && reads_in_place(facts_, call.collective, read);
    return direct ? Access::Address : access;
  };
  Places places{0, 0, call.scaler.factor, Access::Staged, Access::Staged};
  if (call.shown > 0 && !(call.collective == Collective::AllToAll && in_place))
    places.in_access = decide(call.in, call.shown);
  if (call.collective == Collective::AllReduce) places.out_access = decide(call.out, call.bytes);
  places.in = place_of(call.in, places.in_access);
  places.out = place_of(call.out, places.out_access);
  call.exposed = (call.shown > 0 && places.in_access != Access::Staged) || places.out_access != Access::Staged;
  return places;
}

/// Where this rank finds what another one shows.
const void* ShmOffload::shown_by(const PendingCall& call, int rank) const noexcept {
  const Slot& slot = members_.slot_of(rank, call.sequence);
  const bool own = rank == members_.rank();
  if (own && !call.scales_inputs()) return call.in;
  if (call.way == Way::Inline) return slot.line.payload.data();
  if (call.way == Way::Lines) return slot.payload.data();
  Places places;
  std::memcpy(&places, slot.line.payload.data(), sizeof places);
  if (places.in_access == Access::Address) return reinterpret_cast<const void*>(places.in);
  return members_[rank].heap + places.in;
}

}  // namespace sinew::shm
