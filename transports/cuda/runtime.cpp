#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/runtime.hpp>

namespace sinew::cuda {
namespace {

Pointer pointer_of(const void* address) { return reinterpret_cast<Pointer>(address); }
Stream stream_of(StreamRef s) { return static_cast<Stream>(s.stream); }

/// While it lives, this thread may ask for events and allocate memory although a graph is being captured by it or by
/// another thread: both would else break the capture.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { driver().exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

}  // namespace

Current::Current(Context context) { check(driver().push_context(context), "cuCtxPushCurrent"); }
Current::~Current() {
  Context before = nullptr;
  driver().pop_context(&before);
}

Runtime::Runtime() {
  int count = 0;
  check(driver().device_count(&count), "cuDeviceGetCount");
  devices_.resize(static_cast<std::size_t>(count));
}

Runtime::~Runtime() {
  for (const Made& e : events_) driver().event_destroy(e.handle);
  for (OfDevice& device : devices_) {
    if (device.context == nullptr || driver().push_context(device.context) != kSuccess) continue;
    device.kernels.reset();
    for (const auto& [image, program] : device.programs) {
      if (program.library != nullptr) driver().unload_image(program.library);  // null: its image did not load
    }
    Context before = nullptr;
    driver().pop_context(&before);
  }
}

Context Runtime::context_of(int device) {
  if (device < 0 || device >= device_count())
    throw Error(Code::InvalidArgument, fmt::format("device {}, expected 0 to {}", device, device_count() - 1));
  Context& context = devices_[static_cast<std::size_t>(device)].context;
  if (context == nullptr) {
    Device handle = 0;
    check(driver().device_get(&handle, device), "cuDeviceGet");
    check(driver().retain_context(&context, handle), "cuDevicePrimaryCtxRetain");
  }
  return context;
}

DeviceRuntime::Traits Runtime::traits(int device) {
  Device handle = 0;
  check(driver().device_get(&handle, device), "cuDeviceGet");
  char bus_id[32] = {};
  check(driver().device_bus_id(bus_id, sizeof bus_id, handle), "cuDeviceGetPCIBusId");
  int major = 0;
  int minor = 0;
  check(driver().device_attribute(&major, kAttributeMajor, handle), "cuDeviceGetAttribute");
  check(driver().device_attribute(&minor, kAttributeMinor, handle), "cuDeviceGetAttribute");
  int multiprocessors = 1;
  check(driver().device_attribute(&multiprocessors, kAttributeMultiprocessors, handle), "cuDeviceGetAttribute");
  return {bus_id, 10 * major + minor, multiprocessors};
}

/// Asks for the context anew: it touches nothing of this object, for it may be another thread's turn.
int Runtime::make_current(int device) {
  Device before = -1;
  if (driver().current_device(&before) != kSuccess) before = -1;  // no context
  Context context = nullptr;
  if (device >= 0) {
    Device handle = 0;
    check(driver().device_get(&handle, device), "cuDeviceGet");
    check(driver().retain_context(&context, handle), "cuDevicePrimaryCtxRetain");
  }
  check(driver().set_context(context), "cuCtxSetCurrent");
  return before;
}

Place Runtime::place_of(const void* address) {
  unsigned type = 0;
  int device = -1;
  // The driver answers "invalid value" for memory that it has never seen.
  if (driver().pointer_attribute(&type, kPointerMemoryType, pointer_of(address)) != kSuccess) return {};
  if (driver().pointer_attribute(&device, kPointerDeviceOrdinal, pointer_of(address)) != kSuccess) return {};
  return {type == kMemoryHost ? MemoryKind::PinnedHost : MemoryKind::Device, device};
}

Buffer Runtime::allocate(std::size_t bytes, Place place) {
  const Current current(context_of(place.device));
  const RelaxedCapture relaxed;
  const std::size_t length = bytes == 0 ? 1 : bytes;
  if (place.kind == MemoryKind::PinnedHost) {
    void* memory = nullptr;
    check(driver().allocate_host(&memory, length, kHostAllocPortable), "cuMemHostAlloc");
    return {static_cast<std::byte*>(memory), bytes, place};
  }
  if (place.kind != MemoryKind::Device)
    throw Error(Code::InvalidArgument, "allocate: memory of the host was asked for, expected pinned or a device's");
  Pointer memory = 0;
  check(driver().allocate(&memory, length), "cuMemAlloc");
  return {reinterpret_cast<std::byte*>(memory), bytes, place};
}

void Runtime::release(Buffer memory) noexcept {
  if (memory.data == nullptr) return;
  const Current current(devices_[static_cast<std::size_t>(memory.place.device)].context);
  const RelaxedCapture relaxed;
  if (memory.place.kind == MemoryKind::PinnedHost) {
    driver().free_host(memory.data);
  } else {
    driver().free(pointer_of(memory.data));
  }
}

StreamRef Runtime::make_stream(int device, StreamPriority priority) {
  const Current current(context_of(device));
  Stream stream = nullptr;
  int lowest = 0;  // a smaller number is a higher priority
  int highest = 0;
  check(driver().stream_priorities(&lowest, &highest), "cuCtxGetStreamPriorityRange");
  const int number = priority == StreamPriority::High ? highest : lowest;
  check(driver().stream_create(&stream, kStreamNonBlocking, number), "cuStreamCreateWithPriority");
  return {stream, device};
}

void Runtime::release(StreamRef stream) noexcept {
  if (stream.device < 0) return;
  const Current current(devices_[static_cast<std::size_t>(stream.device)].context);
  driver().stream_destroy(stream_of(stream));
}

std::uint64_t Runtime::capture_of(StreamRef stream) {
  const Current current(context_of(stream.device));
  int status = kNotCapturing;
  std::uint64_t number = 0;
  const Result asked = driver().capture_info(stream_of(stream), &status, &number, nullptr, nullptr, nullptr);
  if (asked != kSuccess && stream_of(stream) == nullptr) {
    throw Error(Code::InvalidArgument,
                "the default stream was passed while another stream is being captured into a graph; expected a stream "
                "of the capture, or one that does not wait for others");
  }
  check(asked, "cuStreamGetCaptureInfo");
  if (status == kNotCapturing) return 0;
  if (status == kCaptureBroken) {
    throw Error(Code::InvalidArgument,
                "the capture of this stream into a graph is broken and will give no graph; end it and begin another");
  }
  return number;
}

void Runtime::copy_async(Buffer to, ConstBuffer from, StreamRef stream) {
  const Current current(context_of(stream.device));
  check(driver().copy_async(pointer_of(to.data), pointer_of(from.data), from.bytes, stream_of(stream)),
        "cuMemcpyAsync");
}

void Runtime::copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch,
                              std::size_t row_bytes, std::size_t rows, StreamRef stream) {
  constexpr std::size_t kMostPitch = 0x7fffffff;  // of the driver: CU_DEVICE_ATTRIBUTE_MAX_PITCH
  if (rows == 1 || std::max(from_pitch, to_pitch) > kMostPitch) {
    for (std::size_t r = 0; r < rows; ++r)
      copy_async(to.part(r * to_pitch, row_bytes), from.part(r * from_pitch, row_bytes), stream);
    return;
  }
  const Current current(context_of(stream.device));
  Copy2D copy{};
  copy.from_type = copy.to_type = kMemoryUnified;
  copy.from_device = pointer_of(from.data);
  copy.from_pitch = from_pitch;
  copy.to_device = pointer_of(to.data);
  copy.to_pitch = to_pitch;
  copy.width = row_bytes;
  copy.height = rows;
  check(driver().copy_2d_async(&copy, stream_of(stream)), "cuMemcpy2DAsync");
}

void Runtime::combine_async(Buffer dst, std::span<const void* const> sources, ReduceOp op, DType dtype, double scale,
                            StreamRef stream) {
  const Current current(context_of(stream.device));
  OfDevice& d = devices_[static_cast<std::size_t>(stream.device)];
  if (!d.kernels) {
    Device handle = 0;
    check(driver().device_get(&handle, stream.device), "cuDeviceGet");
    d.kernels = std::make_unique<Kernels>(handle);
  }
  d.kernels->combine(dst.data, sources, dst.bytes / size_of(dtype), op, dtype, scale, stream_of(stream));
}

void Runtime::reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) {
  const void* const sources[] = {a.data, b.data};
  combine_async(dst, sources, op, dtype, 1.0, stream);
}

void Runtime::zero_async(Buffer memory, StreamRef stream) {
  const Current current(context_of(stream.device));
  check(driver().set_bytes_async(pointer_of(memory.data), 0, memory.bytes, stream_of(stream)), "cuMemsetD8Async");
}

void Runtime::launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) {
  if (program.image == nullptr) {
    throw Error(
        Code::Unavailable,
        fmt::format("this build has no device kernels of {}: nvcc was not found when it was configured", program.name));
  }
  const Current current(context_of(stream.device));
  LoadedProgram& loaded = devices_[static_cast<std::size_t>(stream.device)].programs[program.image];
  if (loaded.library == nullptr) check(driver().load_image(&loaded.library, program.image), "cuModuleLoadData");
  auto known = loaded.functions.find(launch.kernel);
  if (known == loaded.functions.end()) {
    Function function = nullptr;
    check(driver().find_function(&function, loaded.library, launch.kernel), launch.kernel);
    known = loaded.functions.emplace(launch.kernel, function).first;
  }
  void* arguments[] = {const_cast<void*>(launch.argument)};
  check(driver().launch(known->second, launch.teams, 1, 1, launch.threads, 1, 1, 0, stream_of(stream), arguments,
                        nullptr),
        launch.kernel);
}

DeviceRuntime::Event Runtime::record(StreamRef stream) {
  const Current current(context_of(stream.device));
  const Event event = spare_event(stream.device);
  try {
    check(driver().event_record(made(event).handle, stream_of(stream)), "cuEventRecord");
  } catch (...) {
    release(event);
    throw;
  }
  return event;
}

DeviceRuntime::Event Runtime::spare_event(int device) {
  const std::scoped_lock lock(events_mutex_);
  auto& spare = devices_[static_cast<std::size_t>(device)].spare;
  if (!spare.empty()) {
    const Event event = spare.back();
    spare.pop_back();
    return event;
  }
  spare.reserve(events_.size() + 1);  // release() must not fail
  EventHandle handle = nullptr;
  check(driver().event_create(&handle, kEventDisableTiming), "cuEventCreate");
  events_.push_back({handle, device});
  return events_.size();
}

void Runtime::wait(StreamRef stream, Event event) {
  const Current current(context_of(stream.device));
  check(driver().stream_wait(stream_of(stream), made(event).handle, 0), "cuStreamWaitEvent");
}

bool Runtime::query(Event event) {
  const Made asked = made(event);
  const Current current(context_of(asked.device));
  const RelaxedCapture relaxed;
  const Result result = driver().event_query(asked.handle);
  if (result == kNotReady) return false;
  check(result, "cuEventQuery");
  return true;
}

void Runtime::release(Event event) noexcept {
  const std::scoped_lock lock(events_mutex_);
  devices_[static_cast<std::size_t>(events_[event - 1].device)].spare.push_back(event);
}

}  // namespace sinew::cuda
