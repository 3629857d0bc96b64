#include <algorithm>
#include <utility>

#include <sinew/collectives/staging/calls.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

StagedShape staged_shape(const CollectiveDesc& desc, int ranks) {
  StagedShape shape;
  shape.blocks = blocks_of(desc.collective, static_cast<std::uint64_t>(ranks));
  const std::uint64_t widest = std::max(shape.blocks.in, shape.blocks.out) * size_of(desc.dtype);
  shape.elements = std::max<std::uint64_t>(1, kStagedPieceBytes / widest);
  // A call without elements is exchanged, too: it may be another one elsewhere.
  shape.pieces = std::max<std::uint64_t>(1, (desc.count + shape.elements - 1) / shape.elements);
  return shape;
}

StagedCalls::StagedCalls(DeviceRuntime& runtime, int device, int rank, int ranks, Exchange exchange)
    : runtime_(runtime), device_(device), rank_(rank), ranks_(ranks), exchange_(std::move(exchange)) {
  piece_.owner = this;
  piece_.fire = [](Completion& c) noexcept {
    StagedCalls& self = *static_cast<Piece&>(c).owner;
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
  // One element of every block is the least; with very many ranks that is more than a piece.
  const std::uint64_t bytes =
      std::max<std::uint64_t>(kStagedPieceBytes, static_cast<std::uint64_t>(ranks_) * sizeof(double));
  for (Slot& s : slots_) {
    for (Buffer* b : {&s.in, &s.out}) {
      if (b->data == nullptr) *b = runtime_.allocate(bytes, {MemoryKind::PinnedHost, device_});
    }
  }
  if (out_stream_.device < 0) out_stream_ = runtime_.make_stream(device_);
  in_stream_ = runtime_.make_stream(device_);
}

void StagedCalls::start(const CollectiveDesc& desc, ConstBuffer in, Buffer out, StreamRef after, std::uint64_t history,
                        Completion& done) {
  auto call = std::make_unique<Call>(desc, done);
  if (desc.op == ReduceOp::User) {
    call->user = *desc.user;
    call->desc.user = &call->user;
  }
  call->desc.place = {};
  call->in = in;
  call->out = out;
  call->history = history;
  call->shape = staged_shape(desc, ranks_);
  try {
    make_slots();
    if (after.device >= 0) call->after = runtime_.record(after);
    call->waits = after.device >= 0;
  } catch (const Error& e) {  // the call ends in its turn, on all ranks
    call->status = Status(e.code(), e.what(), e.rank());
  }
  calls_.push_back(std::move(call));
}

bool StagedCalls::gives(const CollectiveDesc& desc) const noexcept {
  const bool from_root = desc.collective == Collective::Broadcast || desc.collective == Collective::Scatter;
  return !from_root || desc.root == rank_;
}

bool StagedCalls::takes(const CollectiveDesc& desc) const noexcept {
  if (desc.collective == Collective::Broadcast) return desc.root != rank_;
  const bool to_root = desc.collective == Collective::Reduce || desc.collective == Collective::Gather;
  return !to_root || desc.root == rank_;
}

std::uint64_t StagedCalls::elements_of(const Call& call, std::uint64_t piece) const noexcept {
  return std::min(call.shape.elements, call.desc.count - piece * call.shape.elements);
}

/// Its copy, if there was one, is over.
bool StagedCalls::idle(Slot& slot) {
  if (!slot.copying) return true;
  if (!runtime_.query(slot.event)) return false;
  runtime_.release(slot.event);
  slot.copying = false;
  return true;
}

void StagedCalls::copy_in(Call& call) {
  const std::uint64_t piece = call.copied_in++;
  Slot& slot = slot_of(piece);
  if (std::exchange(call.waits, false)) {  // both: a rank that only takes must not write earlier either
    runtime_.wait(in_stream_, call.after);
    runtime_.wait(out_stream_, call.after);
    runtime_.release(call.after);
  }
  const std::size_t each = size_of(call.desc.dtype);
  const std::size_t row = elements_of(call, piece) * each;
  if (!gives(call.desc) || row == 0) return;
  const std::size_t block = call.desc.count * each;
  const std::size_t first = piece * call.shape.elements * each;
  runtime_.copy_rows_async(slot.in, row, call.in.part(first, call.in.bytes - first), block, row, call.shape.blocks.in,
                           in_stream_);
  slot.event = runtime_.record(in_stream_);
  slot.copying = true;
}

void StagedCalls::exchange(Call& call) {
  const std::uint64_t piece = call.started++;
  Slot& slot = slot_of(piece);
  CollectiveDesc desc = call.desc;
  desc.count = elements_of(call, piece);
  const std::size_t row = desc.count * size_of(desc.dtype);
  const bool in_place = desc.collective == Collective::Broadcast;
  Buffer& out = in_place ? slot.in : slot.out;
  exchange_(desc, slot.in.part(0, row * call.shape.blocks.in), out.part(0, row * call.shape.blocks.out), in_place,
            *call.done, call.history, piece_);
  exchanging_ = true;
}

void StagedCalls::copy_out(Call& call) {
  const std::uint64_t piece = call.landed++;
  Slot& slot = slot_of(piece);
  const bool in_place = call.desc.collective == Collective::Broadcast;
  const std::size_t each = size_of(call.desc.dtype);
  const std::size_t row = elements_of(call, piece) * each;
  if (!takes(call.desc) || row == 0) return;
  const std::size_t first = piece * call.shape.elements * each;
  runtime_.copy_rows_async(call.out.part(first, call.out.bytes - first), call.desc.count * each,
                           in_place ? slot.in : slot.out, row, row, call.shape.blocks.out, out_stream_);
  slot.event = runtime_.record(out_stream_);
  slot.copying = true;
}

int StagedCalls::advance(Call& call) {
  int steps = 0;
  const auto slots = slots_.size();
  if (!exchanging_ && call.started > call.landed) {
    piece_.status.require();
    copy_out(call);
    ++steps;
  }
  if (call.copied_in < call.shape.pieces && call.copied_in < call.landed + slots && idle(slot_of(call.copied_in))) {
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
    } catch (const Error&) {
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
    } catch (const Error&) {
      return true;
    }
    runtime_.release(event);
    return true;
  });
  for (Slot& s : slots_) {
    try {
      idle_all = idle(s) && idle_all;
    } catch (const Error&) {
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
  } catch (const Error& e) {
    call.status = Status(e.code(), e.what(), e.rank());
    mark_rest();
    call.landed = call.started;
  }
  const bool over = !call.status.ok() || call.landed == call.shape.pieces;
  if (!over || exchanging_ || !all_idle()) return steps;
  const auto ended = std::move(calls_.front());
  calls_.pop_front();
  if (ended->waits) runtime_.release(ended->after);
  ended->done->finish(std::move(ended->status));
  return steps + 1;
}

}  // namespace sinew
