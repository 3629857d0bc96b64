#include <algorithm>
#include <cstring>
#include <new>

#include <sinew/core/host/stream_copy.hpp>
#include <sinew/transports/shm/offload/announcer.hpp>

namespace sinew::shm {
namespace {

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) noexcept {
  return a != nullptr && b != nullptr && a < b + b_bytes && b < a + a_bytes;
}

/// Written field by field: what is built elsewhere and copied as a whole waits, on some processors, until all that was
/// stored before it (the payload) has reached the cache.
void put(Slot& slot, const Places& places) noexcept { new (slot.line.payload.data()) Places(places); }

}  // namespace

Announcer::Announcer(Members& members, const Facts& facts, CallRing& calls, TreeCalls& trees)
    : members_(members),
      facts_(facts),
      calls_(calls),
      trees_(trees),
      staging_(slots_bytes(static_cast<std::size_t>(members.count()))) {}

/// There must be room in the ring, and in the staging slots if the call needs one. Everybody must have finished what
/// was there. That includes this rank, which may be a source of its own.
bool Announcer::can_announce() noexcept {
  std::uint64_t must_be_done = calls_.announced > kRing ? calls_.announced - kRing : 0;
  const PendingCall& call = calls_.at(calls_.announced);
  if (call.protocol == Protocol::Tree && !trees_.subtree_is_there(call)) return false;
  if (call.protocol == Protocol::Slot || call.protocol == Protocol::Parts) {
    if (const std::uint64_t bytes = staged_bytes(call); bytes > 0) {
      next_stage_ = staging_.find(bytes);
      must_be_done = std::max(must_be_done, next_stage_.used_by);
    }
  }
  return must_be_done < calls_.oldest && members_.all_done(must_be_done);
}

int Announcer::announce_waiting() noexcept {
  int count = 0;
  for (; calls_.announced != calls_.next && can_announce(); ++calls_.announced, ++count) {
    PendingCall& call = calls_.at(calls_.announced);
    if (call.protocol == Protocol::Tree && (differing_child_ = trees_.differing_child(call)) >= 0) return count;
    announce(call);
  }
  return count;
}

void Announcer::announce(PendingCall& call) noexcept {
  Slot& slot = members_.mine().ring[call.sequence % kRing];
  show(call, slot);
  const std::uint64_t done = calls_.oldest - 1;
  slot.line.fingerprint = call.fingerprint;
  slot.line.history = call.history;
  slot.line.done =
      static_cast<std::uint32_t>(call.protocol == Protocol::Tree ? trees_.done_in_subtree(call, done) : done);
  if (call.demoted && call.protocol == Protocol::Lines) demote_lines(slot.payload.data(), call.shown);
  slot.line.stamp.store(members_.stamp(call.sequence), std::memory_order_release);
  if (call.demoted) demote_lines(&slot.line, sizeof slot.line);
  members_.notify_all();
  if (has_root(call.collective) && is_from_root(call.collective) == (members_.rank() == call.root)) own_next(call);
}

/// Who only gives may be ahead of the others; then its next announcement waits for nothing but the lines it goes into.
void Announcer::own_next(const PendingCall& call) noexcept {
  Slot& next = members_.mine().ring[(call.sequence + 1) % kRing];
  prefetch_line_to_write(&next.line);
  if (call.protocol != Protocol::Lines) return;
  for (std::size_t i = 0; i < call.shown; i += kCacheLine) prefetch_line_to_write(next.payload.data() + i);
}

void Announcer::show(PendingCall& call, Slot& slot) noexcept {
  switch (call.protocol) {
    case Protocol::Inline: return copy_shown(call, slot.line.payload.data());
    case Protocol::Lines: return copy_shown(call, slot.payload.data());
    case Protocol::Tree: return trees_.show(call, slot);
    case Protocol::Slot: return show_slot(call, slot);
    case Protocol::TreeChunks: return;  // neighbours show chunk by chunk
    case Protocol::Chunks: return show_chunks(call, slot);
    case Protocol::Parts: return show_parts(call, slot);
  }
}

void Announcer::copy_shown(const PendingCall& call, std::byte* to) const noexcept {
  if (call.shown == 0) return;
  if (call.scales_inputs()) return call.scaler(to, call.in, call.shown);
  call.without_own ? copy_blocks(call, to) : copy_for_others(to, call.in, call.shown);
}

/// Copies all blocks except this rank's own.
void Announcer::copy_blocks(const PendingCall& call, std::byte* to) const noexcept {
  const std::uint64_t before = static_cast<std::uint64_t>(members_.rank()) * call.bytes;
  copy_for_others(to, call.in, before);
  copy_for_others(to + before, call.in + before + call.bytes, call.shown - before);
}

void Announcer::copy_long(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept {
  const bool on_a_line = reinterpret_cast<std::uintptr_t>(to) % kCacheLine == 0;  // a block may begin anywhere
  if (bytes >= facts_.stream_from_bytes && on_a_line) {
    stream_copy(to, from, bytes);
    finish_streams();
  } else {
    sinew::copy_for_others(to, from, bytes, facts_.string_from_bytes);
  }
}

Access Announcer::access_to(const void* memory, std::uint64_t bytes) const noexcept {
  const SharedSegment& segment = members_.host().shared_segment();
  if (bytes > 0 && segment.contains(memory) && segment.contains(static_cast<const std::byte*>(memory) + bytes - 1))
    return Access::Segment;
  return members_.one_process() ? Access::Address : Access::Staged;
}

std::uint64_t Announcer::place_of(const void* memory, Access access) const noexcept {
  return access == Access::Segment ? members_.host().shared_segment().offset_of(memory)
                                   : reinterpret_cast<std::uint64_t>(memory);
}

/// The bytes that a call of Protocol::Slot or Protocol::Parts puts into the staging slots; 0: none.
std::uint64_t Announcer::staged_bytes(const PendingCall& call) noexcept {
  if (call.protocol == Protocol::Slot) return call.shown;
  const CallParts& parts = calls_.parts_of(call);
  if (parts.gives.empty()) return 0;
  const std::uint64_t given = parts.given_bytes(call, members_.rank());
  if (in_lines(parts.gives.size() * sizeof(PartEntry)) + given <= kLinesBytes) return 0;
  const std::uint64_t measured = of_family(facts_.slot_bytes, Collective::AllToAll);
  const std::uint64_t most = parts.swaps ? kSlotMostBytes : std::min<std::uint64_t>(measured, kSlotMostBytes);
  return given <= most ? given : 0;
}

/// can_announce() has seen that it is free.
std::byte* Announcer::take_stage(std::uint64_t bytes, std::uint64_t sequence) noexcept {
  return reinterpret_cast<std::byte*>(&members_.mine()) + kSlotsAt + staging_.take(next_stage_, bytes, sequence);
}

void Announcer::show_slot(PendingCall& call, Slot& slot) noexcept {
  if (call.given == 0) return put(slot, {});
  const bool written = call.collective != Collective::Broadcast &&
                       overlap(call.in, call.given, call.out, std::max(call.given, call.bytes));
  const Access access = access_to(call.in, call.given);
  if (access != Access::Staged && !written && !call.scales_inputs()) {
    call.exposed = true;
    return put(slot, {place_of(call.in, access), 0, 1.0, access, access});
  }
  std::byte* const stage = take_stage(call.shown, call.sequence);
  copy_shown(call, stage);
  put(slot, {members_.host().shared_segment().offset_of(stage), 0, 1.0, Access::Staged, Access::Staged});
}

void Announcer::show_chunks(PendingCall& call, Slot& slot) noexcept {
  const bool in_place = call.in == call.out;
  const auto own = static_cast<std::uint64_t>(members_.rank()) * call.bytes;
  if (call.collective == Collective::AllGather && in_place && own > 0) {
    std::memmove(call.out + own, call.in, call.bytes);  // the others' blocks go where it was
    call.in = call.out + own;
  }
  const auto decide = [&](const void* memory, std::uint64_t bytes) {
    const Access access = access_to(memory, bytes);
    const bool direct =
        access == Access::Staged && members_.direct() && reads_directly(facts_, call.collective, bytes, call.bytes);
    return direct ? Access::Address : access;
  };
  Places places{0, 0, call.scaler.factor, Access::Staged, Access::Staged};
  if (call.given > 0 && !(call.collective == Collective::AllToAll && in_place))
    places.in_access = decide(call.in, call.given);
  if (call.collective == Collective::AllReduce) places.out_access = decide(call.out, call.bytes);
  places.in = place_of(call.in, places.in_access);
  places.out = place_of(call.out, places.out_access);
  call.exposed = (call.given > 0 && places.in_access != Access::Staged) || places.out_access != Access::Staged;
  put(slot, places);
}

void Announcer::show_parts(PendingCall& call, Slot& slot) noexcept {
  const CallParts& parts = calls_.parts_of(call);
  if (parts.gives.empty()) return put(slot, {});
  const std::uint64_t table = in_lines(parts.gives.size() * sizeof(PartEntry));
  std::byte* stage = nullptr;  // null: they are read where they lie
  if (const std::uint64_t staged = staged_bytes(call); staged > 0) {
    stage = take_stage(staged, call.sequence);
  } else if (table + parts.given_bytes(call, members_.rank()) <= kLinesBytes) {
    stage = slot.payload.data() + table;
  }
  const std::byte* const from = parts.copy.empty() ? call.in : parts.copy.data();
  Access access = Access::Staged;
  if (stage == nullptr) {
    call.exposed = true;
    access = access_to(from, parts.end_of_gives()) == Access::Segment ? Access::Segment : Access::Address;
  }
  const SharedSegment& segment = members_.host().shared_segment();
  const bool one_for_all = call.collective == Collective::AllGatherV;
  std::uint64_t staged = 0;
  for (std::size_t r = 0; r < parts.gives.size(); ++r) {
    const Range& part = parts.gives[r];
    PartEntry entry{0, part.bytes};
    const bool own = static_cast<int>(r) == members_.rank();
    if (stage == nullptr) {
      entry.place = place_of(from + part.offset, access);
    } else if (one_for_all) {
      entry.place = segment.offset_of(stage);
      if (own) copy_for_others(stage, from, part.bytes);
    } else if (!own) {
      entry.place = segment.offset_of(stage + staged);
      copy_for_others(stage + staged, from + part.offset, part.bytes);
      staged += in_lines(part.bytes);
    }
    std::memcpy(slot.payload.data() + r * sizeof entry, &entry, sizeof entry);
  }
  put(slot, {0, 0, 1.0, access, Access::Staged});
}

}  // namespace sinew::shm
