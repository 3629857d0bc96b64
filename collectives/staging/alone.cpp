#include <exception>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/staging/alone.hpp>
#include <sinew/collectives/staging/segments.hpp>
#include <sinew/core/call/cost_model.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// What this rank gives itself, and where it takes it; no elements: there is nothing.
std::pair<Extent, Extent> own_part(const Call& call) {
  const StagedParts parts =
      has_local_counts(call.desc.collective)
          ? StagedParts{{call.in_parts.begin(), call.in_parts.end()}, {call.out_parts.begin(), call.out_parts.end()}}
          : staged_parts(call.desc, 0, 1);
  const auto only = [](const StagedParts::Row& row) { return row.empty() ? Extent{} : row.front(); };
  return {only(parts.in), only(parts.out)};
}

}  // namespace

AloneOnDevice::~AloneOnDevice() {
  if (stream_.device >= 0) runtime_.release(stream_);
}

Availability AloneOnDevice::supports(const CollectiveDesc& desc) const {
  if (desc.place.kind != MemoryKind::Device) return Availability::no("the buffers are host memory");
  if (desc.codec != Codec::None) return Availability::no("what is coded changes on the way, also to oneself");
  if (reduces(desc.collective) && desc.op == ReduceOp::PreMulSum) return Availability::no("it does not multiply");
  return Availability::yes();
}

Seconds AloneOnDevice::predict(const CollectiveDesc& desc) const {
  return assumed::kDeviceCallSeconds + Rate{assumed::kDeviceCopyBytesPerS}.seconds(static_cast<double>(desc.bytes(1)));
}

std::string AloneOnDevice::describe(const CollectiveDesc& /*desc*/) const {
  return "on the device, where not in place";
}

void AloneOnDevice::launch(const Call& call, Completion& done) {
  Running running{.done = &done, .status = ended_};
  if (running.status.ok()) {
    try {
      if (call.capture != 0) {
        copy(call, call.after);
        call.mark->set(runtime_, runtime_.record(call.after), call.capture);
        return done.finish({});
      }
      enqueue(call, running);
    } catch (const std::exception& e) {
      running.status = status_of(e);
      mark_rest(running);
    }
  }
  calls_.push_back(std::move(running));
}

void AloneOnDevice::copy(const Call& call, StreamRef stream) {
  const auto [from, to] = own_part(call);
  if (from.count != to.count) {
    throw Error(Code::Mismatch, fmt::format("{}: {} elements from this rank to itself, which expects {}",
                                            name_of(call.desc.collective), from.count, to.count));
  }
  const std::size_t each = size_of(call.desc.dtype), bytes = to.count * each;
  if (bytes == 0) return;
  const ConstBuffer source = call.in.part(from.first * each, bytes);
  const Buffer target = call.out.part(to.first * each, bytes);
  if (source.data != target.data) runtime_.copy_async(target, source, stream);
}

void AloneOnDevice::enqueue(const Call& call, Running& running) {
  if (stream_.device < 0) stream_ = runtime_.make_stream(device_);
  if (call.after.device >= 0) {
    const DeviceRuntime::Event begin = runtime_.record(call.after);
    runtime_.wait(stream_, begin);
    runtime_.release(begin);
  }
  copy(call, stream_);
  mark_end(running);
  call.mark->set(runtime_, runtime_.record(stream_));
}

void AloneOnDevice::mark_end(Running& running) {
  running.end = runtime_.record(stream_);
  running.waits = true;
}

/// A call of the runtime failed between others: what they enqueued must still come to its end.
void AloneOnDevice::mark_rest(Running& running) noexcept {
  if (running.waits || stream_.device < 0) return;
  try {
    mark_end(running);
  } catch (const std::exception&) {
    return;  // nor will anything else of this stream come
  }
}

bool AloneOnDevice::is_over(Running& running) noexcept {
  if (!running.waits) return true;
  try {
    if (!runtime_.query(running.end)) return false;
  } catch (const std::exception& e) {  // the device has failed: nothing of it will come any more
    if (running.status.ok()) running.status = status_of(e);
  }
  runtime_.release(running.end);
  return true;
}

void AloneOnDevice::abort(const Status& reason) noexcept {
  if (ended_.ok()) ended_ = reason;
  for (Running& running : calls_) {
    if (running.status.ok()) running.status = reason;
  }
}

int AloneOnDevice::progress() noexcept {
  int ended = 0;
  while (!calls_.empty() && is_over(calls_.front())) {
    Running over = std::move(calls_.front());
    calls_.pop_front();
    over.done->finish(std::move(over.status));
    ++ended;
  }
  return ended;
}

}  // namespace sinew
