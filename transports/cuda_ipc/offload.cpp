#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/cuda_ipc/offload.hpp>

namespace sinew::cuda_ipc {
namespace {

Bytes text(const std::string& s) {
  const auto* first = reinterpret_cast<const std::byte*>(s.data());
  return {first, first + s.size()};
}
std::string text(const Bytes& b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

}  // namespace

// A card has the offset of the rank's line in its shared segment, followed by the card of the scratch memory. A shorter
// text is the reason why the rank cannot take part.
Bytes IpcOffload::present(int device) noexcept {
  try {
    scratch_ = std::make_unique<Scratch>(runtime_, device);
    board_ = std::make_unique<Board>(host_);
    stream_ = runtime_.make_stream(device);
    const std::uint64_t offset = board_->offset();
    const auto* first = reinterpret_cast<const std::byte*>(&offset);
    Bytes card(first, first + sizeof offset);
    const Bytes memory = scratch_->card();
    card.insert(card.end(), memory.begin(), memory.end());
    return card;
  } catch (const Error& e) {
    return text(std::string(e.what()).substr(0, sizeof(std::uint64_t) + sizeof(cuda::IpcMemory)));
  }
}

void IpcOffload::join(const OffloadContext& context, const std::vector<Bytes>& cards) {
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (cards[r].size() <= sizeof(std::uint64_t) + sizeof(cuda::IpcMemory))
      throw Error(Code::Unavailable, fmt::format("{}: {}", group_.rank_text(static_cast<int>(r)), text(cards[r])));
    std::uint64_t offset = 0;
    std::memcpy(&offset, cards[r].data(), sizeof offset);
    const int world_rank = context.group.world_ranks[r];
    board_->join(world_rank, offset);
    scratch_->join({cards[r].begin() + sizeof offset, cards[r].end()}, host_.same_process(world_rank), r == rank_);
  }
  const std::vector<DeviceLinks> unknown(ranks_);
  prospects_.emplace(context.devices.empty() ? unknown : context.devices, scratch_->processes_on_a_device());
}

IpcOffload::IpcOffload(HostPeers& host, cuda::Runtime& runtime, int device, const OffloadContext& context,
                       std::vector<RetainedMemory>& retained)
    : host_(host),
      runtime_(runtime),
      group_(context.group),
      rank_(static_cast<std::size_t>(context.group.rank)),
      ranks_(context.group.world_ranks.size()),
      retained_(retained) {
  const std::vector<Bytes> cards = context.exchange.all_gather(present(device));
  std::string failure;
  try {
    join(context, cards);
  } catch (const Error& e) {
    failure = e.what();
  }
  const std::vector<Bytes> failures = context.exchange.all_gather(text(failure));
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (!failures[r].empty())
      throw Error(Code::Unavailable, fmt::format("cuda_ipc: {} cannot join: {}", group_.rank_text(static_cast<int>(r)),
                                                 text(failures[r])));
  }
}

IpcOffload::~IpcOffload() {
  if (stream_.device >= 0) runtime_.release(stream_);
  if (board_ == nullptr) return;
  board_->leave();
  retained_.push_back({std::move(scratch_), std::move(board_), !ended_.ok()});
}

bool IpcOffload::set_stream_priority(StreamPriority priority) {
  if (has_launched_) return false;
  const StreamRef chosen = runtime_.make_stream(stream_.device, priority);
  runtime_.release(std::exchange(stream_, chosen));
  return true;
}

void IpcOffload::launch(const Call& call, Completion& done) {
  has_launched_ = true;
  Running r;
  r.desc = call.desc;
  r.in = call.in;
  r.out = call.out;
  r.fingerprint = call.fingerprint;
  r.history = call.history;
  if (call.desc.op == ReduceOp::Average && reduces(call.desc.collective)) r.scale = 1.0 / static_cast<double>(ranks_);
  if (call.desc.op == ReduceOp::PreMulSum && reduces(call.desc.collective)) r.scale_in = call.desc.pre_multiply;
  r.mark = call.mark;
  r.done = &done;
  r.shape = prospects_->shape_of(call.desc);
  if (call.after.device >= 0) r.after = runtime_.record(call.after);
  r.status = ended_;
  calls_.push_back(std::move(r));
}

void IpcOffload::abort(const Status& reason) noexcept {
  if (ended_.ok()) ended_ = reason;
  for (Running& r : calls_) {
    if (r.status.ok()) r.status = reason;
  }
}

std::uint64_t IpcOffload::elements_now(const Running& r) const noexcept {
  return std::min(r.shape.elements, r.desc.count - r.fragment * r.shape.elements);
}

std::pair<std::uint64_t, std::uint64_t> IpcOffload::part_of(const Running& r, std::size_t rank) const noexcept {
  const std::uint64_t all = elements_now(r);
  if (!r.shape.two_shot) return {0, all};
  const std::uint64_t first = all * rank / ranks_;
  return {first, all * (rank + 1) / ranks_ - first};
}

void IpcOffload::mark_event() {
  if (event_) runtime_.release(*event_);
  event_.reset();
  event_ = runtime_.record(stream_);
}

/// What was enqueued last has come to its end.
bool IpcOffload::event_over() {
  if (!event_) return true;
  if (!runtime_.query(*event_)) return false;
  runtime_.release(*event_);
  event_.reset();
  return true;
}

void IpcOffload::give(Running& r) {
  if (r.after) {
    runtime_.wait(stream_, *r.after);
    runtime_.release(*r.after);
    r.after.reset();
  }
  const bool gives = r.desc.collective != Collective::Broadcast || static_cast<std::size_t>(r.desc.root) == rank_;
  const std::size_t row = bytes_now(r);
  if (!gives || row == 0) return;
  const std::size_t pitch = r.desc.count * size_of(r.desc.dtype);
  const std::size_t first = r.fragment * r.shape.elements * size_of(r.desc.dtype);
  std::byte* to = scratch_->of(rank_, fragment_);
  if (r.scale_in == 1) {
    runtime_.copy_rows_async({to, row * r.shape.blocks.in}, row, r.in.part(first, r.in.bytes - first), pitch, row,
                             r.shape.blocks.in, stream_);
  } else {
    for (std::uint64_t b = 0; b < r.shape.blocks.in; ++b) {
      const void* const one[] = {r.in.data + first + b * pitch};
      runtime_.combine_async({to + b * row, row}, one, r.desc.op, r.desc.dtype, r.scale_in, stream_);
    }
  }
  mark_event();
}

/// Elements [first, first + elements) of all contributions.
void IpcOffload::combine(Buffer to, std::uint64_t first, std::uint64_t elements, const Running& r) {
  const std::size_t each = size_of(r.desc.dtype);
  if (elements == 0) return;
  std::array<const void*, cuda::kMostSources> from{};
  for (std::size_t k = 0; k < ranks_; ++k) from[k] = scratch_->of(k, fragment_) + first * each;
  runtime_.combine_async(to.part(0, elements * each), std::span(from).first(ranks_), r.desc.op, r.desc.dtype, r.scale,
                         stream_);
}

/// A part that is reduced lies where this rank's contribution to it was: nobody else reads that.
void IpcOffload::reduce(Running& r) {
  const auto [first, elements] = part_of(r, rank_);
  const std::size_t each = size_of(r.desc.dtype);
  combine({scratch_->of(rank_, fragment_) + first * each, elements * each}, first, elements, r);
  mark_event();
}

/// Each rank begins with its own memory, then goes round: no two of them read the same rank at a time.
void IpcOffload::take(Running& r) {
  const std::size_t each = size_of(r.desc.dtype);
  const std::size_t row = bytes_now(r);
  const std::size_t pitch = r.desc.count * each;
  const std::size_t offset = r.fragment * r.shape.elements * each;
  const auto root = static_cast<std::size_t>(r.desc.root);
  const auto copy = [&](std::size_t to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0) runtime_.copy_async(r.out.part(to, bytes), ConstBuffer{from, bytes}, stream_);
  };
  if (row == 0) return;
  switch (r.desc.collective) {
    case Collective::AllReduce:
      if (!r.shape.two_shot) {
        combine(r.out.part(offset, row), 0, elements_now(r), r);
        break;
      }
      for (std::size_t i = 0; i < ranks_; ++i) {
        const std::size_t k = (rank_ + i) % ranks_;
        const auto [first, elements] = part_of(r, k);
        copy(offset + first * each, scratch_->of(k, fragment_) + first * each, elements * each);
      }
      break;
    case Collective::Reduce:
      if (root == rank_) combine(r.out.part(offset, row), 0, elements_now(r), r);
      break;
    case Collective::ReduceScatter:
      combine(r.out.part(offset, row), rank_ * elements_now(r), elements_now(r), r);
      break;
    case Collective::Broadcast:
      if (root != rank_) copy(offset, scratch_->of(root, fragment_), row);
      break;
    default:  // all_gather, all_to_all: a block of each rank
      for (std::size_t i = 0; i < ranks_; ++i) {
        const std::size_t k = (rank_ + i) % ranks_;
        const std::size_t block = r.desc.collective == Collective::AllToAll ? rank_ * row : 0;
        copy(k * pitch + offset, scratch_->of(k, fragment_) + block, row);
      }
  }
  mark_event();
}

void IpcOffload::check_same_call(const Running& r) const {
  for (std::size_t k = 0; k < ranks_; ++k) {
    const Line::Fragment& theirs = board_->of(k).fragments[fragment_ % 2];
    if (theirs.history.load(std::memory_order_relaxed) == r.history) continue;
    const std::uint64_t call = theirs.fingerprint.load(std::memory_order_relaxed);
    throw Error(Code::Mismatch,
                fmt::format("{} called {}, {} {}", group_.rank_text(group_.rank), describe_fingerprint(r.fingerprint),
                            group_.rank_text(static_cast<int>(k)),
                            call == r.fingerprint ? "made another call before" : describe_fingerprint(call)),
                static_cast<int>(k));
  }
}

bool IpcOffload::waits_for_others(const Running& r) const noexcept {
  switch (phase_) {
    case Phase::Give: return fragment_ > 2 && !board_->all_reached(&Line::taken, fragment_ - 2);
    case Phase::Reduce: return !board_->all_reached(&Line::given, fragment_);
    case Phase::Take: return !board_->all_reached(r.shape.two_shot ? &Line::reduced : &Line::given, fragment_);
    case Phase::Given:
    case Phase::Reduced:
    case Phase::Taken: return false;
  }
  return false;
}

bool IpcOffload::step(Running& r) {
  if (waits_for_others(r)) return false;
  switch (phase_) {
    case Phase::Give:
      board_->begin(fragment_, r.history, r.fingerprint);
      give(r);
      phase_ = Phase::Given;
      return true;
    case Phase::Given:
      if (!event_over()) return false;
      board_->reach(&Line::given, fragment_);
      phase_ = r.shape.two_shot ? Phase::Reduce : Phase::Take;
      return true;
    case Phase::Reduce:
      check_same_call(r);
      reduce(r);
      phase_ = Phase::Reduced;
      return true;
    case Phase::Reduced:
      if (!event_over()) return false;
      board_->reach(&Line::reduced, fragment_);
      phase_ = Phase::Take;
      return true;
    case Phase::Take:
      check_same_call(r);
      take(r);
      phase_ = Phase::Taken;
      if (r.fragment + 1 == r.shape.fragments && r.mark != nullptr) r.mark->set(runtime_, runtime_.record(stream_));
      return true;
    case Phase::Taken:
      if (!event_over()) return false;
      board_->reach(&Line::taken, fragment_);
      ++fragment_;
      ++r.fragment;
      phase_ = Phase::Give;
      return true;
  }
  return false;
}

void IpcOffload::finish_front() {
  Running over = std::move(calls_.front());
  calls_.pop_front();
  if (over.after) runtime_.release(*over.after);
  over.done->finish(std::move(over.status));
}

/// After a failure: what was enqueued, and still reads and writes the caller's memory, is over; or the device has
/// failed, and nothing of it will come any more.
bool IpcOffload::drained() noexcept {
  try {
    return event_over();
  } catch (const Error&) {
    event_.reset();
    return true;
  }
}

int IpcOffload::progress() noexcept {
  int steps = 0;
  while (!calls_.empty()) {
    Running& r = calls_.front();
    if (r.status.ok()) {
      try {
        if (!step(r)) return steps;
      } catch (const std::exception& e) {
        abort(status_of(e));
        try {
          mark_event();
        } catch (const Error&) {
          event_.reset();
        }
      }
    }
    if (!r.status.ok() && !drained()) return steps;
    ++steps;
    if (!r.status.ok() || r.fragment == r.shape.fragments) finish_front();
  }
  return steps;
}

bool IpcOffload::arm() noexcept {
  if (calls_.empty()) return true;
  // A device wakes nobody; what other ranks write does.
  if (event_ || !calls_.front().status.ok()) return false;
  host_.arm();
  if (waits_for_others(calls_.front())) return true;
  host_.disarm();
  return false;
}

}  // namespace sinew::cuda_ipc
