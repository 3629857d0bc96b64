#include <algorithm>
#include <cstring>

#include <sinew/core/host/stream_copy.hpp>
#include <sinew/transports/shm/memory/direct_read.hpp>
#include <sinew/transports/shm/offload/chunks.hpp>

namespace sinew::shm {
namespace {

/// Fits the first cache with all that goes with it.
constexpr std::uint64_t kHotBytes = 8 << 10;
/// The memory for copies of all ranks' inputs, which are needed if inputs are read through the kernel or scaled.
constexpr std::uint64_t kBounceBytes = 512 << 10;
/// The most bytes that are read from one rank in one step.
constexpr std::uint64_t kAtOnceBytes = 4 << 20;
constexpr std::uint64_t kLeastBounce = 4 << 10;  // not a page

const std::byte* bytes_at(const GroupState& group_state, std::uint64_t offset) noexcept {
  return reinterpret_cast<const std::byte*>(&group_state) + offset;
}

}  // namespace

void Chunks::begin(const PendingCall& call) {
  call_ = call;
  geometry_ = Geometry(call, members_.count(), facts_);
  history_.root = -1;
  staged_ = 0;
  combined_ = 0;
  status_ = {};
  finished_ = false;
  bool bounces = call.scales_inputs();
  for (int r = 0; r < members_.count(); ++r) {
    Places places;
    std::memcpy(&places, members_.line_of(r, call.sequence).payload.data(), sizeof places);
    Peer& p = peer(r);
    p.in = resolve(r, places.in_access, places.in);
    p.out = resolve(r, places.out_access, places.out);
    p.factor = places.factor;
    const bool anything =
        geometry_.shares_results() || (!geometry_.reduces() && geometry_.reads_input(members_.rank(), r));
    p.fetched = r == members_.rank() || !anything ? geometry_.chunks() : 0;
    bounces = bounces || p.in.address != 0;
  }
  const int me = members_.rank();
  block_ = geometry_.chunk_bytes();
  if (bounces && geometry_.combines(me)) {
    block_ = std::min(block_, std::max(kLeastBounce, kBounceBytes / peers_.size() / kLeastBounce * kLeastBounce));
    bounce_.resize(block_ * peers_.size());
  }
  sources_.resize(peers_.size());
  bool read_by_others = false;
  for (int r = 0; r < members_.count(); ++r) read_by_others = read_by_others || geometry_.reads_input(r, me);
  stages_ = read_by_others && peer(me).in.staged;
  stages_results_ = geometry_.shares_results() && peer(me).out.staged;
  in_place_swap_ = call.collective == Collective::AllToAll && call.in == call.out;
  waits_for_first_ = call.collective == Collective::ReduceScatter && call.in == call.out && me != 0;
  if (!stages_) staged_ = geometry_.chunks();
  if (!geometry_.combines(me)) combined_ = geometry_.chunks();
  keeps_while_staging_ = false;
  if (geometry_.keeps_own(me)) {
    const Range own = geometry_.wanted_by(me);
    std::byte* to = call.out + geometry_.lands_at(me);
    const bool moves = to != call.in + own.offset;
    keeps_while_staging_ = moves && stages_ && geometry_.one_chunk_for_all();
    if (moves && !keeps_while_staging_) std::memmove(to, call.in + own.offset, own.bytes);
  }
  say(members_.mine().taken, geometry_.reduces() ? combined_ : least_fetched());
  finish_if_done();
}

Chunks::Buffer Chunks::resolve(int rank, Access access, std::uint64_t place) const noexcept {
  const Member& m = members_[rank];
  switch (access) {
    case Access::Staged: return {nullptr, 0, true};
    case Access::Segment: return {m.segment + place, 0, false};
    case Access::Address: break;
  }
  if (m.same_process) return {reinterpret_cast<const std::byte*>(place), 0, false};
  return {nullptr, place, false};
}

bool Chunks::all_reached(LoneWord GroupState::*word, std::uint64_t count) const noexcept {
  for (int r = 0; r < members_.count(); ++r) {
    if (r != members_.rank() && (members_[r].group_state->*word).value.load(std::memory_order_acquire) < count)
      return false;
  }
  return true;
}

bool Chunks::can_stage() const noexcept {
  const std::uint64_t after = history_.chunks + staged_ + 1;
  return staged_ < geometry_.chunks() &&
         (after <= layout_.count() || all_reached(&GroupState::taken, after - layout_.count()));
}

bool Chunks::can_combine() const noexcept {
  if (combined_ >= geometry_.chunks()) return false;
  const std::uint64_t after = history_.chunks + combined_ + 1;
  for (int r = 0; r < members_.count(); ++r) {
    if (peer(r).in.staged && r != members_.rank() &&
        members_[r].group_state->staged.value.load(std::memory_order_acquire) < after)
      return false;
  }
  if (stages_results_ && after > layout_.count() && !all_reached(&GroupState::pulled, after - layout_.count()))
    return false;
  return !waits_for_first_ || members_[0].group_state->taken.value.load(std::memory_order_acquire) >= after;
}

bool Chunks::can_fetch(int rank) const noexcept {
  const Peer& p = peer(rank);
  if (p.fetched >= geometry_.chunks()) return false;
  const std::uint64_t after = history_.chunks + p.fetched + 1;
  const GroupState& theirs = *members_[rank].group_state;
  if (geometry_.shares_results()) return theirs.taken.value.load(std::memory_order_acquire) >= after;
  if (in_place_swap_ && staged_ <= p.fetched) return false;
  return !p.in.staged || theirs.staged.value.load(std::memory_order_acquire) >= after;
}

int Chunks::fetchable() const noexcept {
  int best = -1;
  for (int i = 1; i < members_.count(); ++i) {
    const int r = (members_.rank() + i) % members_.count();
    if ((best < 0 || peer(r).fetched < peer(best).fetched) && can_fetch(r)) best = r;
  }
  return best;
}

int Chunks::step() noexcept {
  int events = 0;
  if (can_stage()) {
    stage();
    ++events;
  }
  if (can_combine()) {
    combine_chunk();
    ++events;
  }
  if (const int r = fetchable(); r >= 0 && status_.ok()) {
    fetch(r);
    ++events;
  }
  if (events > 0) finish_if_done();
  return events;
}

void Chunks::stage() noexcept {
  std::byte* stage = reinterpret_cast<std::byte*>(&members_.mine()) + layout_.input_at(history_.chunks + staged_);
  for (int r = 0; r < members_.count(); ++r) {
    if (!geometry_.reads_input(r, members_.rank())) continue;
    const Range wanted = geometry_.wanted_by(r);
    const Range part = geometry_.part(wanted, staged_);
    if (keeps_while_staging_) {
      show_and_keep(stage, part);
      break;
    }
    show(stage + geometry_.stage_offset(members_.rank(), r), call_.in + wanted.offset + part.offset, part.bytes);
    if (geometry_.one_chunk_for_all()) break;
  }
  finish_streams();
  say(members_.mine().staged, ++staged_);
}

/// Copies bytes into this rank's group state, where other ranks read them.
void Chunks::show(std::byte* to, const std::byte* from, std::uint64_t bytes) const noexcept {
  if (facts_.stream_from_bytes <= geometry_.chunk_bytes()) {
    stream_copy(to, from, bytes);
  } else {
    sinew::copy_for_others(to, from, bytes, facts_.string_from_bytes);
  }
}

/// Copies a chunk of the input to the stage, and to its place in this rank's result. Each piece is read from memory
/// once, and from the first cache the second time.
void Chunks::show_and_keep(std::byte* stage, const Range& part) noexcept {
  const std::byte* const from = call_.in + part.offset;
  std::byte* const kept = call_.out + geometry_.lands_at(members_.rank()) + part.offset;
  for (std::uint64_t at = 0; at < part.bytes; at += kHotBytes) {
    const std::uint64_t length = std::min(kHotBytes, part.bytes - at);
    show(stage + at, from + at, length);
    vector_copy(kept + at, from + at, length);
  }
}

const void* Chunks::input_of(int rank, const Range& wanted, const Range& part, const Range& block) noexcept {
  const Peer& p = peer(rank);
  const std::uint64_t offset = wanted.offset + block.offset;
  const std::byte* at = nullptr;
  if (rank == members_.rank()) {
    at = call_.in + offset;
  } else if (p.in.staged) {
    at = bytes_at(*members_[rank].group_state, layout_.input_at(history_.chunks + combined_) +
                                                   geometry_.stage_offset(rank, members_.rank()) + block.offset -
                                                   part.offset);
  } else if (p.in.mapped) {
    at = p.in.mapped + offset;
  } else {
    read_from(rank, bounce_of(rank), p.in.address + offset, block.bytes);
    at = bounce_of(rank);
  }
  if (call_.scales_inputs()) {
    Scaler scale = call_.scaler;
    scale.factor = p.factor;
    scale(bounce_of(rank), at, block.bytes);
    at = bounce_of(rank);
  }
  return at;
}

void Chunks::combine_chunk() noexcept {
  const int me = members_.rank();
  const Range wanted = geometry_.wanted_by(me);
  const Range part = geometry_.part(wanted, combined_);
  std::byte* const out = call_.out + (geometry_.shares_results() ? geometry_.lands_at(me) : 0);
  std::byte* const results =
      reinterpret_cast<std::byte*>(&members_.mine()) + layout_.result_at(history_.chunks + combined_);
  for (std::uint64_t from = 0; from < part.bytes; from += block_) {
    const Range block{part.offset + from, std::min(block_, part.bytes - from)};
    for (int r = 0; r < members_.count(); ++r) sources_[static_cast<std::size_t>(r)] = input_of(r, wanted, part, block);
    if (!status_.ok()) return;
    combine_and_show(out + block.offset, results + from, block.bytes);
  }
  if (stages_results_) finish_streams();
  say(members_.mine().taken, ++combined_);
}

/// Combines what sources_ point to; results that must be staged are copied while they are still in the first cache.
void Chunks::combine_and_show(std::byte* to, std::byte* results, std::uint64_t bytes) noexcept {
  if (!stages_results_) return combine(call_, to, sources_.data(), members_.count(), bytes);
  for (std::uint64_t from = 0; from < bytes; from += kHotBytes) {
    const std::uint64_t length = std::min(kHotBytes, bytes - from);
    combine(call_, to + from, sources_.data(), members_.count(), length);
    show(results + from, to + from, length);
    for (const void*& source : sources_) source = static_cast<const std::byte*>(source) + length;
  }
}

void Chunks::fetch(int rank) noexcept {
  Peer& p = peer(rank);
  const bool results = geometry_.shares_results();
  const Buffer& from = results ? p.out : p.in;
  const Range wanted = geometry_.wanted_by(results ? rank : members_.rank());
  // A staged input is read chunk by chunk. An input that is read where it lies may be read many chunks at once.
  const bool whole = !results && !from.staged && !in_place_swap_;
  const std::uint64_t chunks = whole ? std::max<std::uint64_t>(kAtOnceBytes / geometry_.chunk_bytes(), 1) : 1;
  const Range part = geometry_.part(wanted, p.fetched, chunks);
  std::byte* to = call_.out + geometry_.lands_at(rank) + part.offset;
  if (part.bytes > 0) {
    if (from.staged) {
      const std::uint64_t chunk = history_.chunks + p.fetched;
      const std::uint64_t at =
          results ? layout_.result_at(chunk) : layout_.input_at(chunk) + geometry_.stage_offset(rank, members_.rank());
      vector_copy(to, bytes_at(*members_[rank].group_state, at), part.bytes);
    } else if (from.mapped) {
      vector_copy(to, from.mapped + wanted.offset + part.offset, part.bytes);
    } else {
      read_from(rank, to, from.address + wanted.offset + part.offset, part.bytes);
    }
  }
  if (!status_.ok()) return;
  p.fetched = std::min(p.fetched + chunks, geometry_.chunks());
  say(results ? members_.mine().pulled : members_.mine().taken, least_fetched());
}

std::byte* Chunks::bounce_of(int rank) noexcept { return bounce_.data() + static_cast<std::size_t>(rank) * block_; }

void Chunks::read_from(int rank, std::byte* to, std::uint64_t address, std::uint64_t bytes) noexcept {
  const int error = read_process(members_[rank].pid, to, address, bytes);
  if (error != 0) status_ = members_.unread(rank, error);
}

void Chunks::say(LoneWord& word, std::uint64_t count) noexcept {
  word.value.store(history_.chunks + count, std::memory_order_release);
  members_.notify_all();
}

std::uint64_t Chunks::least_fetched() const noexcept {
  std::uint64_t least = geometry_.chunks();
  for (const Peer& p : peers_) least = std::min(least, p.fetched);
  return least;
}

/// A call that failed says no more of itself: its words must stay true while others go by them.
void Chunks::finish_if_done() noexcept {
  const std::uint64_t all = geometry_.chunks();
  finished_ = !status_.ok() || (staged_ == all && combined_ == all && least_fetched() == all);
  if (!finished_ || !status_.ok()) return;
  say(members_.mine().staged, all);
  say(members_.mine().taken, all);
  say(members_.mine().pulled, all);
  say(members_.mine().passed, all);
  history_.chunks += all;
}

}  // namespace sinew::shm
