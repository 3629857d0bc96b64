#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/staging/calls.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

namespace {

bool is_one_buffer(const CollectiveDesc& desc) { return desc.collective == Collective::Broadcast; }

std::uint64_t longest(const StagedParts& parts) {
  std::uint64_t most = 0;
  for (const auto* row : {&parts.in, &parts.out}) {
    for (const auto& part : *row) most = std::max(most, part.count);
  }
  return most;
}

std::uint64_t elements_that_fit(const StagedParts& parts, std::size_t element_bytes) {
  std::uint64_t elements = StagedSegments::kWhole;
  for (const auto* row : {&parts.in, &parts.out}) {
    std::vector<std::uint64_t> counts;
    for (const auto& part : *row) counts.push_back(part.count);
    elements = std::min(elements, staged_elements(std::move(counts), element_bytes));
  }
  return elements;
}

/// Puts the extents of a segment's parts, one behind the other, into `row`. Returns their number of elements.
std::uint64_t lay_out_segment(const StagedParts::Row& parts, const StagedSegments& segments, std::uint64_t segment,
                              std::vector<ChunkTable::Extent>& row) {
  row.clear();
  std::uint64_t next = 0;
  for (const auto& part : parts) {
    row.push_back({next, segments.segment(part.count, segment).count});
    next += row.back().count;
  }
  return next;
}

}  // namespace

StagedCalls::StagedCalls(DeviceRuntime& runtime, int device, StreamPriority priority, int rank, int ranks,
                         Exchange exchange)
    : runtime_(runtime),
      device_(device),
      priority_(priority),
      rank_(rank),
      ranks_(ranks),
      exchange_(std::move(exchange)) {
  segment_.owner = this;
  segment_.fire = [](Completion& c) noexcept {
    StagedCalls& self = *static_cast<Segment&>(c).owner;
    self.exchanging_ = false;
  };
}

StagedCalls::~StagedCalls() {
  for (Slot& s : slots_) {
    runtime_.release(s.in);
    runtime_.release(s.out);
  }
  for (const StreamRef stream : {in_stream_, out_stream_}) {
    if (stream.device >= 0) runtime_.release(stream);
  }
}

void StagedCalls::make_slots() {
  if (in_stream_.device >= 0) return;
  // A segment has at least one element of every block. With very many ranks they take more than kStagedSegmentBytes.
  const std::uint64_t bytes =
      std::max<std::uint64_t>(kStagedSegmentBytes, static_cast<std::uint64_t>(ranks_) * sizeof(double));
  for (Slot& s : slots_) {
    for (Buffer* b : {&s.in, &s.out}) {
      if (b->data == nullptr) *b = runtime_.allocate(bytes, {MemoryKind::PinnedHost, device_});
    }
  }
  if (out_stream_.device < 0) out_stream_ = runtime_.make_stream(device_, priority_);
  in_stream_ = runtime_.make_stream(device_, priority_);
}

void StagedCalls::start(const CollectiveDesc& desc, const CallPartsRef& local, ConstBuffer in, Buffer out,
                        StreamRef after, std::uint64_t history, Completion& done) {
  auto call = std::make_unique<Call>(desc, done);
  if (desc.op == ReduceOp::User) {
    call->user = *desc.user;
    call->desc.user = &call->user;
  }
  call->counts.assign(desc.counts.begin(), desc.counts.end());
  call->desc.counts = call->counts;
  call->desc.displacements = {};
  call->desc.place = {};
  call->in = in;
  call->out = out;
  call->history = history;
  if (has_local_counts(desc.collective)) {
    call->parts = {local->chunks.in, local->chunks.out};
  } else {
    call->parts = staged_parts(desc, rank_, ranks_);
    call->segments = staged_segments(desc, ranks_);
    call->knows_segments = true;
  }
  try {
    make_slots();
    if (after.device >= 0) call->after = runtime_.record(after);
    call->waits = after.device >= 0;
  } catch (const std::exception& e) {  // the call ends in its turn, on all ranks
    call->status = status_of(e);
  }
  calls_.push_back(std::move(call));
}

bool StagedCalls::gives(const Call& call) const noexcept {
  return !is_one_buffer(call.desc) || call.desc.root == rank_;
}

bool StagedCalls::takes(const Call& call) const noexcept {
  return !is_one_buffer(call.desc) || call.desc.root != rank_;
}

/// Its copy, if there was one, is over.
bool StagedCalls::idle(Slot& slot) {
  if (!slot.copying) return true;
  if (!runtime_.query(slot.event)) return false;
  runtime_.release(slot.event);
  slot.copying = false;
  return true;
}

/// Runs kStagedAgreement, and at the next call sets the segments by its result. The first word is a complement, so its
/// maximum gives the smallest of all ranks' segments. The maximum of the second word is the longest part of all ranks.
int StagedCalls::agree(Call& call) {
  if (exchanging_) return 0;
  if (!std::exchange(call.agreeing, true)) {
    agreement_ = {~elements_that_fit(call.parts, size_of(call.desc.dtype)), longest(call.parts)};
    const auto bytes = std::as_writable_bytes(std::span(agreement_));
    const Buffer words{bytes.data(), bytes.size()};
    exchange_(kStagedAgreement, words, words, {*call.done, call.history, true, {}}, segment_);
    exchanging_ = true;
    return 1;
  }
  segment_.status.require();
  call.segments = StagedSegments::of(~agreement_[0], agreement_[1]);
  call.knows_segments = true;
  return 1;
}

/// Throws if the segment has failed. If ranks passed different counts, some segment fails, and the message names it.
void StagedCalls::require_landed(const Call& call) const {
  const Status& end = segment_.status;
  if (end.code() != Code::Mismatch || call.segments.count == 1) return end.require();
  throw Error(Code::Mismatch,
              fmt::format("{}, in piece {} of {}: from element {} of each part on", end.message(), call.landed + 1,
                          call.segments.count, call.landed * call.segments.elements),
              end.rank());
}

void StagedCalls::copy_in(Call& call) {
  const std::uint64_t segment = call.copied_in++;
  Slot& slot = slot_of(segment);
  if (std::exchange(call.waits, false)) {  // both: a rank that only takes must not write earlier either
    runtime_.wait(in_stream_, call.after);
    runtime_.wait(out_stream_, call.after);
    runtime_.release(call.after);
  }
  if (!gives(call)) return;
  const std::size_t each = size_of(call.desc.dtype);
  const auto elements = for_each_row(
      call.parts.in, call.segments, segment,
      [&](std::uint64_t first, std::uint64_t pitch, std::uint64_t count, std::uint64_t rows, std::uint64_t packed) {
        const std::size_t row = count * each;
        runtime_.copy_rows_async(slot.in.part(packed * each, rows * row), row,
                                 call.in.part(first * each, call.in.bytes - first * each), pitch * each, row, rows,
                                 in_stream_);
      });
  if (elements == 0) return;
  slot.event = runtime_.record(in_stream_);
  slot.copying = true;
}

void StagedCalls::exchange(Call& call) {
  const std::uint64_t segment = call.started++;
  Slot& slot = slot_of(segment);
  const std::size_t each = size_of(call.desc.dtype);
  const bool one_buffer = is_one_buffer(call.desc);
  CallParts& parts = *segment_parts_;
  const CollectiveDesc desc = staged_segment(call.desc, call.segments, segment, parts.counts);
  const std::size_t in = lay_out_segment(call.parts.in, call.segments, segment, parts.chunks.in) * each;
  const std::size_t out = lay_out_segment(call.parts.out, call.segments, segment, parts.chunks.out) * each;
  exchange_(desc, slot.in.part(0, in), (one_buffer ? slot.in : slot.out).part(0, out),
            {*call.done, call.history, one_buffer, segment_parts_}, segment_);
  exchanging_ = true;
}

void StagedCalls::copy_out(Call& call) {
  const std::uint64_t segment = call.landed++;
  Slot& slot = slot_of(segment);
  if (!takes(call)) return;
  const Buffer from = is_one_buffer(call.desc) ? slot.in : slot.out;
  const std::size_t each = size_of(call.desc.dtype);
  const auto elements = for_each_row(
      call.parts.out, call.segments, segment,
      [&](std::uint64_t first, std::uint64_t pitch, std::uint64_t count, std::uint64_t rows, std::uint64_t packed) {
        const std::size_t row = count * each;
        runtime_.copy_rows_async(call.out.part(first * each, call.out.bytes - first * each), pitch * each,
                                 from.part(packed * each, rows * row), row, row, rows, out_stream_);
      });
  if (elements == 0) return;
  slot.event = runtime_.record(out_stream_);
  slot.copying = true;
}

int StagedCalls::advance(Call& call) {
  if (!call.knows_segments) return agree(call);
  int steps = 0;
  const auto slots = slots_.size();
  if (!exchanging_ && call.started > call.landed) {
    require_landed(call);
    copy_out(call);
    ++steps;
  }
  if (call.copied_in < call.segments.count && call.copied_in < call.landed + slots && idle(slot_of(call.copied_in))) {
    copy_in(call);
    ++steps;
  }
  if (!exchanging_ && call.started < call.copied_in && idle(slot_of(call.started))) {
    exchange(call);
    ++steps;
  }
  return steps;
}

void StagedCalls::abort(const Status& reason) noexcept {
  for (auto& call : calls_) {
    if (call->status.ok()) call->status = reason;
  }
}

/// A call of the runtime failed between others: what they enqueued must still come to its end.
void StagedCalls::mark_rest() noexcept {
  for (const StreamRef stream : {in_stream_, out_stream_}) {
    try {
      rest_.push_back(runtime_.record(stream));
    } catch (const std::exception&) {
      continue;  // nor will anything else of this stream come
    }
  }
}

/// Also where the device has failed: then nothing of it will come any more.
bool StagedCalls::all_idle() noexcept {
  bool idle_all = true;
  std::erase_if(rest_, [&](DeviceRuntime::Event event) {
    try {
      if (!runtime_.query(event)) return idle_all = false;
    } catch (const std::exception&) {
      return true;
    }
    runtime_.release(event);
    return true;
  });
  for (Slot& s : slots_) {
    try {
      idle_all = idle(s) && idle_all;
    } catch (const std::exception&) {
      s.copying = false;
    }
  }
  return idle_all;
}

int StagedCalls::progress() noexcept {
  if (calls_.empty()) return 0;
  Call& call = *calls_.front();
  if (call.launch) {
    const auto turn = std::move(calls_.front());
    calls_.pop_front();
    turn->launch();
    return 1;
  }
  int steps = 0;
  try {
    if (call.status.ok()) steps = advance(call);
  } catch (const std::exception& e) {
    call.status = status_of(e);
    mark_rest();
    call.landed = call.started;
  }
  const bool over = !call.status.ok() || call.landed == call.segments.count;
  if (!over || exchanging_ || !all_idle()) return steps;
  const auto ended = std::move(calls_.front());
  calls_.pop_front();
  if (ended->waits) runtime_.release(ended->after);
  ended->done->finish(std::move(ended->status));
  return steps + 1;
}

}  // namespace sinew
