#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include <sinew/transports/shm/offload/offload.hpp>

namespace sinew::shm {
namespace {

constexpr std::uint64_t kLinesAtOnce = 32;

/// All at once, not as whoever reads them gets to them.
void fetch_lines(const void* first, std::size_t lines) noexcept {
  for (std::size_t i = 0; i < lines; ++i) prefetch_line(static_cast<const std::byte*>(first) + i * kCacheLine);
}

/// True if ranks may read the users' buffers of other ranks. Trees go through the group states.
constexpr bool reads_buffers(Protocol p) noexcept {
  return p == Protocol::Slot || p == Protocol::Chunks || p == Protocol::Parts;
}

}  // namespace

ShmOffload::ShmOffload(HostPeers& host, GroupStates& group_states, const OffloadContext& context)
    : members_(host, group_states, context),
      facts_(with_cores(decode_facts(context.facts))),
      choices_(Levels(members_.count(), context.parts), facts_),
      trees_(members_, choices_.levels()),
      announcer_(members_, facts_, calls_, trees_),
      chunks_(members_, facts_, chunk_history_),
      tree_chunks_(members_, choices_.levels(), chunk_history_),
      part_reader_(members_),
      shown_(static_cast<std::size_t>(members_.count())) {}

Availability ShmOffload::supports(const CollectiveDesc& desc) const {
  switch (desc.collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Gather:
    case Collective::Scatter:
    case Collective::Barrier: break;
    case Collective::AllGatherV:
    case Collective::AllToAllV:
    case Collective::GatherV:
    case Collective::ScatterV:
      if (!members_.direct()) return Availability::no("parts are read in place, but " + members_.why_not_direct());
      if (static_cast<std::size_t>(members_.count()) > kMostPartRanks)
        return Availability::no(fmt::format("parts of more than {} ranks", kMostPartRanks));
      break;
    default: return Availability::no(fmt::format("shared memory has no {} of its own", name_of(desc.collective)));
  }
  if (desc.place.kind == MemoryKind::Device) return Availability::no("the buffers are device memory");
  if (desc.codec != Codec::None) return Availability::no("it reads what ranks have in memory, where nothing is coded");
  return Availability::yes();
}

Seconds ShmOffload::predict(const CollectiveDesc& desc) const { return choices_.predict(desc); }

std::string ShmOffload::describe(const CollectiveDesc& desc) const {
  if (members_.direct() || choices_.protocol_of(desc) != Protocol::Chunks) return choices_.describe(desc);
  Facts staged = facts_;
  staged.read_in_place = {};
  return fmt::format("{}, as ordinary memory cannot be read in place: {}", choices_.describe(desc, staged),
                     members_.why_not_direct());
}

std::size_t ShmOffload::memory_bytes() const noexcept {
  return group_state_bytes(static_cast<std::size_t>(members_.count())) + chunks_.memory_bytes() + calls_.memory_bytes();
}

void ShmOffload::launch(const Call& call, Completion& done) {
  PendingCall& c = calls_.prepare();
  if (call.fingerprint != form_fingerprint_ || call.desc.count != form_count_) [[unlikely]]
    take_form(call);
  static_cast<CallForm&>(c) = form_;
  c.done = &done;
  c.fingerprint = call.fingerprint;
  c.history = static_cast<std::uint32_t>(call.history >> 32);
  c.exposed = false;
  c.out = call.out.data;
  c.in = call.in.data;
  c.reducer = call.reducer;
  c.many = call.many;
  c.scaler = call.scaler;
  if (c.protocol >= Protocol::Tree) prepare(call, c);
  calls_.launched();
  if (end_.ok()) announcer_.announce_waiting();
}

void ShmOffload::take_form(const Call& call) noexcept {
  form_ = form_of(call.desc, members_.rank(), members_.count(), facts_, choices_.protocol_of(call.desc));
  form_fingerprint_ = call.fingerprint;
  form_count_ = call.desc.count;
}

/// Allocates while the call may still fail.
void ShmOffload::prepare(const Call& call, PendingCall& c) {
  if (c.protocol == Protocol::Parts) lay_out(call, c, members_.rank(), members_.count(), calls_.parts_of(c));
  if (c.protocol == Protocol::Tree) trees_.prepare(c);
  if (c.protocol == Protocol::TreeChunks) tree_chunks_.prepare(c);
}

void ShmOffload::abort(const Status& reason) noexcept {
  if (!end_.ok()) return;
  end_ = reason;
  members_.close();
}

int ShmOffload::progress() noexcept {
  if (calls_.empty()) return 0;
  if (!end_.ok()) {
    fail_all();
    return calls_.empty() ? 1 : 0;
  }
  int announced = 0;
  if (calls_.announced != calls_.next) {
    announced = announcer_.announce_waiting();
    if (const int child = announcer_.differing_child(); child >= 0) {  // nothing is read any more
      abort(mismatch(calls_.at(calls_.announced), child));
      fail_all();
      return 1;
    }
  }
  return announced + (calls_.oldest < calls_.announced ? advance() : 0);
}

bool ShmOffload::arm() noexcept {
  if (!active()) return true;
  members_.host().arm();
  if (!end_.ok()) return false;
  if (calls_.announced != calls_.next && announcer_.can_announce()) return false;
  return calls_.oldest == calls_.announced || !can_advance();
}

/// Must the rank's announcement have been seen before this rank goes on? In chunks everybody waits for everybody, and
/// in one call of each turn of the ring: ranks that take nothing from each other would never learn that they differ.
[[gnu::always_inline]] inline bool ShmOffload::awaits(const PendingCall& call, int rank) noexcept {
  if (rank == members_.rank()) return false;
  const bool rooted = has_root(call.collective);
  if (rooted && call.sequence % kRing == 0) return true;
  if (call.protocol >= Protocol::Tree && call.protocol != Protocol::Parts) {
    if (call.protocol == Protocol::Chunks) return true;
    // advance_tree() waits along the edges of the tree
    return call.protocol == Protocol::TreeChunks && tree_chunks_.is_neighbour(call, rank);
  }
  if (!rooted) return true;
  return is_from_root(call.collective) ? rank == call.root : members_.rank() == call.root;
}

bool ShmOffload::can_advance() noexcept {
  switch (stage_) {
    case Stage::Announced: {
      int next = met_;
      while (next < members_.count() && !awaits(calls_.at(calls_.oldest), next)) ++next;
      if (next < members_.count()) return members_.announced(next, calls_.oldest);
      return calls_.at(calls_.oldest).protocol != Protocol::Tree || trees_.result_is_there(calls_.at(calls_.oldest));
    }
    case Stage::Moving:
      switch (calls_.at(calls_.oldest).protocol) {
        case Protocol::Parts: return true;
        case Protocol::TreeChunks: return tree_chunks_.can_step();
        default: return chunks_.can_step();
      }
    case Stage::Draining: break;
  }
  return members_.all_done(calls_.oldest);
}

/// One step of the oldest call.
int ShmOffload::advance() noexcept {
  PendingCall& call = calls_.at(calls_.oldest);
  int begun = 0;
  if (stage_ == Stage::Announced) {
    if (!meet(call)) return end_.ok() ? 0 : 1;
    if (call.protocol < Protocol::Tree) {
      if (call.protocol == Protocol::Slot && !begin_reading(call)) return 1;
      for (int r = 0; r < members_.count(); ++r) {
        if (r == members_.rank() || awaits(call, r)) shown_[static_cast<std::size_t>(r)] = announcer_.shown_by(call, r);
      }
      if (call.protocol == Protocol::Slot) fetch_shown(call);
      finish_at_once(call, shown_.data(), members_.rank(), members_.count());
      if (call.protocol == Protocol::Slot) members_.set_reading(false);
      if (is_from_root(call.collective) && members_.rank() != call.root)  // it may be ahead
        prefetch_line(&members_.line_of(call.root, call.sequence + 1));
      finish_reading(call);
      return 1;
    }
    if (call.protocol == Protocol::Tree) return advance_tree(call);
    if (call.protocol == Protocol::TreeChunks) {
      tree_chunks_.begin(call);
    } else {
      call.protocol == Protocol::Chunks ? chunks_.begin(call) : part_reader_.begin(calls_.parts_of(call));
    }
    stage_ = Stage::Moving;
    begun = 1;
  }
  if (stage_ == Stage::Moving) {
    if (call.protocol == Protocol::TreeChunks) {
      const int steps = tree_chunks_.step();
      if (tree_chunks_.finished()) finish_reading(call);
      return begun + steps;
    }
    if (!begin_reading(call)) return 1;
    const int steps =
        call.protocol == Protocol::Parts ? part_reader_.step(call, calls_.parts_of(call)) : chunks_.step();
    members_.set_reading(false);
    const auto look = [&](const auto& work) {
      if (!work.finished()) return;
      if (work.status().ok()) return finish_reading(call);
      abort(work.status());
      fail_all();
    };
    call.protocol == Protocol::Parts ? look(part_reader_) : look(chunks_);
    return begun + steps;
  }
  if (!members_.all_done(calls_.oldest)) return 0;
  complete(call, {});
  return 1;
}

int ShmOffload::advance_tree(PendingCall& call) {
  if (!trees_.result_is_there(call)) return 0;
  if (const int parent = trees_.differing_parent(call); parent >= 0) {
    abort(mismatch(call, parent));
    fail_all();
    return 1;
  }
  trees_.finish(call, calls_.oldest - 1);
  finish_reading(call);
  return 1;
}

/// Asks for the first lines of what is only copied.
void ShmOffload::fetch_shown(const PendingCall& call) noexcept {
  if (reduces(call.collective)) return;
  const std::uint64_t lines = std::min<std::uint64_t>(kLinesAtOnce, call.bytes / kCacheLine);
  for (int r = 0; r < members_.count(); ++r) {
    if (awaits(call, r)) fetch_lines(shown_[static_cast<std::size_t>(r)], lines);
  }
}

/// Looks at the announcements that it needs and that are there; true when all are and all are of this call.
bool ShmOffload::meet(const PendingCall& call) noexcept {
  for (; met_ < members_.count(); ++met_) {
    if (!awaits(call, met_)) continue;
    if (!members_.announced(met_, call.sequence)) return false;
    const FlagLine& line = members_.line_of(met_, call.sequence);
    if (call.protocol == Protocol::Parts)  // the table of parts, and short parts behind it
      fetch_lines(members_.slot_of(met_, call.sequence).payload.data(), 4);
    if (!agrees(call, line)) {
      abort(mismatch(call, met_));
      fail_all();
      return false;
    }
    members_.learn_done(met_, line, call.sequence);
  }
  return true;
}

Status ShmOffload::mismatch(const PendingCall& call, int rank) const {
  const FlagLine& line = members_.line_of(rank, call.sequence);
  const std::string mine = describe_fingerprint(call.fingerprint);
  if (line.fingerprint == call.fingerprint) {
    const std::array both{members_.rank(), rank};
    return {Code::Mismatch, fmt::format("{} made different calls before {}", members_.group().ranks_text(both), mine),
            rank};
  }
  return {Code::Mismatch,
          fmt::format("{} calls {}, {} calls {}", members_.group().rank_text(members_.rank()), mine,
                      members_.group().rank_text(rank), describe_fingerprint(line.fingerprint)),
          rank};
}

/// A rank whose own buffers were read, and that has left meanwhile, may have reused them; -1: none.
int ShmOffload::left_while_read(const PendingCall& call) noexcept {
  std::atomic_thread_fence(std::memory_order_acquire);  // what was read comes before the look
  for (int r = 0; r < members_.count(); ++r) {
    if (!awaits(call, r)) continue;
    Places places;
    std::memcpy(&places, members_.line_of(r, call.sequence).payload.data(), sizeof places);
    const bool exposed = places.in_access != Access::Staged || places.out_access != Access::Staged;
    if (exposed && members_.closed(r)) return r;
  }
  return -1;
}

/// false: the call has failed.
bool ShmOffload::nobody_left(const PendingCall& call) noexcept {
  const int r = left_while_read(call);
  if (r < 0) return true;
  abort(members_.left_during_call(r));
  fail_all();
  return false;
}

bool ShmOffload::begin_reading(const PendingCall& call) noexcept {
  members_.set_reading(true);
  if (!members_.one_process() || nobody_left(call)) return true;
  members_.set_reading(false);
  return false;
}

/// This rank has all it needs of the oldest call.
void ShmOffload::finish_reading(PendingCall& call) noexcept {
  if (call.protocol > Protocol::Lines && reads_buffers(call.protocol) && !nobody_left(call)) return;
  members_.store_done(call.sequence);
  if (call.exposed && !members_.all_done(call.sequence)) {
    stage_ = Stage::Draining;
    return;
  }
  complete(call, {});
}

void ShmOffload::complete(PendingCall& call, Status status) noexcept {
  Completion& done = *call.done;
  done.bytes = call.bytes;
  if (call.protocol == Protocol::Parts) calls_.parts_of(call).copy = {};
  ++calls_.oldest;
  met_ = 0;
  stage_ = Stage::Announced;
  done.finish(std::move(status));  // may launch
}

/// Not while another rank reads this one's buffers: then in the next turn.
void ShmOffload::fail_all() noexcept {
  if (members_.read_by_others()) return;
  for (const std::uint64_t launched = calls_.next; calls_.oldest != launched;) complete(calls_.at(calls_.oldest), end_);
  calls_.announced = std::max(calls_.announced, calls_.oldest);
}

}  // namespace sinew::shm
