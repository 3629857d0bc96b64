// libcuda.so.1 over the fake device: as strict as the driver where it matters to its callers. A call without a current
// context fails, a function is found by its name or not at all, a handle that was destroyed is not taken.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/cuda/driver_types.hpp>

#include "fakes/fake_device.hpp"
#include "fakes/fake_graph.hpp"

using namespace sinew;
using namespace sinew::cuda;

namespace {

constexpr int kDevices = 4;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kNotFound = 500;
constexpr Result kCaptureUnsupported = 900;
constexpr int kCapturing = 1;
constexpr std::size_t kMostPitch = 0x7fffffff;
constexpr int kHighestPriority = -5;
constexpr std::size_t kMemory = std::size_t{1} << 34;

fake::Device& device() {
  static fake::Device d(kDevices);
  return d;
}

struct FakeEvent {
  DeviceRuntime::Event event = 0;
};
std::mutex mutex;
std::set<FakeEvent*> events;
std::vector<std::shared_ptr<fake::Graph>> graphs;  // of all captures: never freed
std::set<std::string> functions;
std::atomic<int> images{0};           // loaded now
std::array<char, kDevices> contexts;  // their addresses are the contexts
thread_local std::vector<Context> current;
thread_local int capture_mode = 0;  // of a thread that has said nothing: "global"

int device_of(Context context) { return static_cast<int>(reinterpret_cast<char*>(context) - contexts.data()); }
StreamRef ref(Stream s) { return {s, device_of(current.back())}; }
std::byte* bytes(Pointer p) { return reinterpret_cast<std::byte*>(p); }

/// What the driver would do without a context: nothing but say so.
template <class F>
Result with_context(F&& f) {
  if (current.empty()) return kInvalidContext;
  try {
    return f();
  } catch (const Error&) {
    return kInvalidValue;
  }
}

/// What may wait for the device is refused while a graph is captured, unless the thread takes that upon itself.
bool breaks_a_capture() { return fake::any_stream_is_capturing() && capture_mode != kCaptureRelaxed; }

FakeEvent* known(EventHandle e) {
  const std::scoped_lock lock(mutex);
  auto* event = reinterpret_cast<FakeEvent*>(e);
  return events.contains(event) ? event : nullptr;
}

/// What our kernels do, on the host.
void run_combine(const std::string& name, void* const* arguments, Stream stream) {
  struct Sources {
    const void* at[16];
  };
  const std::size_t mark = name.rfind('_');
  const ReduceOp op = *reduce_op_from_name(name.substr(14, mark - 14));  // after "sinew_combine_"
  const DType dtype = *dtype_from_name(name.substr(mark + 1));
  void* dst = *static_cast<void* const*>(arguments[0]);
  const auto from = *static_cast<const Sources*>(arguments[1]);
  const int n = *static_cast<const int*>(arguments[2]);
  const std::size_t count = *static_cast<const std::size_t*>(arguments[3]);
  const double scale = *static_cast<const double*>(arguments[4]);
  const std::size_t length = count * size_of(dtype);
  std::byte* to = fake::bytes_of(dst, length);
  std::vector<const void*> sources;
  for (int s = 0; s < n; ++s) sources.push_back(fake::bytes_of(from.at[s], length));
  fake::enqueue(stream, [=] {
    many_reducer_for(op, dtype).fn(to, sources.data(), n, count);
    if (scale != 1.0) scaler_for(dtype, scale)(to, to, length);
    return true;
  });
}

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) Result

FAKE cuInit(unsigned) { return kSuccess; }
FAKE cuGetErrorString(Result result, const char** text) {
  switch (result) {
    case kSuccess: *text = "no error"; return kSuccess;
    case kInvalidValue: *text = "invalid argument"; return kSuccess;
    case kOutOfMemory: *text = "out of memory"; return kSuccess;
    case kInvalidContext: *text = "invalid device context"; return kSuccess;
    case kInvalidHandle: *text = "invalid resource handle"; return kSuccess;
    case kNotFound: *text = "named symbol not found"; return kSuccess;
    default: return kInvalidValue;
  }
}
FAKE cuDeviceGetCount(int* count) {
  *count = kDevices;
  return kSuccess;
}
FAKE cuDeviceGet(Device* handle, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidValue;
  *handle = ordinal;
  return kSuccess;
}
FAKE cuDeviceGetPCIBusId(char* text, int length, Device handle) {
  constexpr const char* kBuses[] = {"1B", "43", "52", "61", "9D", "C3", "D1", "DF"};  // as fake_nvml.cpp has them
  static_assert(kDevices <= std::size(kBuses));
  const std::string id = fmt::format("0000:{}:00.0", kBuses[handle]);
  std::strncpy(text, id.c_str(), static_cast<std::size_t>(length));
  return kSuccess;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kAttributeMajor ? 9 : attribute == kAttributeMinor ? 0 : 2;
  return kSuccess;
}
FAKE cuCtxGetDevice(Device* handle) {
  if (current.empty()) return kInvalidContext;
  *handle = device_of(current.back());
  return kSuccess;
}
FAKE cuCtxSetCurrent(Context context) {
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  device().make_current(context == nullptr ? -1 : device_of(context));  // for fakes of libraries
  return kSuccess;
}
FAKE cuDevicePrimaryCtxRetain(Context* context, Device handle) {
  *context = reinterpret_cast<Context>(&contexts[static_cast<std::size_t>(handle)]);
  return kSuccess;
}
FAKE cuCtxPushCurrent_v2(Context context) {
  current.push_back(context);
  return kSuccess;
}
FAKE cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
FAKE cuMemAlloc_v2(Pointer* memory, std::size_t length) {
  return with_context([&] {
    if (breaks_a_capture()) return kCaptureUnsupported;
    if (length > kMemory) return kOutOfMemory;
    *memory =
        reinterpret_cast<Pointer>(device().allocate(length, {MemoryKind::Device, device_of(current.back())}).data);
    return kSuccess;
  });
}
FAKE cuMemFree_v2(Pointer memory) {
  return with_context([&] {
    if (breaks_a_capture()) return kCaptureUnsupported;
    device().release({bytes(memory), 0, {}});
    return kSuccess;
  });
}
FAKE cuMemHostAlloc(void** memory, std::size_t length, unsigned) {
  return with_context([&] {
    *memory = device().allocate(length, {MemoryKind::PinnedHost, device_of(current.back())}).data;
    return kSuccess;
  });
}
FAKE cuMemFreeHost(void* memory) { return cuMemFree_v2(reinterpret_cast<Pointer>(memory)); }
FAKE cuPointerGetAttribute(void* value, int attribute, Pointer memory) {
  const Place place = device().place_of(bytes(memory));
  if (place.kind == MemoryKind::Host) return kInvalidValue;
  if (attribute == kPointerRangeStart || attribute == kPointerBufferId) {
    const fake::AllocationOf allocation = fake::allocation_of(bytes(memory));
    const auto first = reinterpret_cast<Pointer>(allocation.first);
    const Pointer wanted = attribute == kPointerRangeStart ? first : allocation.number;
    std::memcpy(value, &wanted, sizeof wanted);
    return kSuccess;
  }
  const int found = attribute == kPointerDeviceOrdinal ? place.device
                    : place.kind == MemoryKind::Device ? static_cast<int>(kMemoryDevice)
                                                       : static_cast<int>(kMemoryHost);
  std::memcpy(value, &found, sizeof found);
  return kSuccess;
}
FAKE cuMemcpyAsync(Pointer to, Pointer from, std::size_t length, Stream stream) {
  return with_context([&] {
    device().copy_async({bytes(to), length}, ConstBuffer{bytes(from), length}, ref(stream));
    return kSuccess;
  });
}
FAKE cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  return with_context([&] {
    if (copy->from_type != kMemoryUnified || copy->to_type != kMemoryUnified) return kInvalidValue;
    if (copy->width > copy->from_pitch || copy->width > copy->to_pitch) return kInvalidValue;
    if (std::max(copy->from_pitch, copy->to_pitch) > kMostPitch) return kInvalidValue;
    device().copy_rows_async({bytes(copy->to_device), 0}, copy->to_pitch, Buffer{bytes(copy->from_device), 0},
                             copy->from_pitch, copy->width, copy->height, ref(stream));
    return kSuccess;
  });
}
FAKE cuMemsetD8Async(Pointer to, unsigned char value, std::size_t length, Stream stream) {
  return with_context([&] {
    if (value != 0) return kInvalidValue;
    device().zero_async({bytes(to), length}, ref(stream));
    return kSuccess;
  });
}
FAKE cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  return with_context([&] {
    *lowest = 0;
    *highest = kHighestPriority;
    return kSuccess;
  });
}
FAKE cuStreamCreateWithPriority(Stream* stream, unsigned, int priority) {
  return with_context([&] {
    const StreamPriority chosen = priority <= kHighestPriority ? StreamPriority::High : StreamPriority::Normal;
    *stream = static_cast<Stream>(device().make_stream(device_of(current.back()), chosen).stream);
    return kSuccess;
  });
}
FAKE cuStreamDestroy_v2(Stream stream) {
  return with_context([&] {
    device().release(ref(stream));
    return kSuccess;
  });
}
FAKE cuStreamWaitEvent(Stream stream, EventHandle handle, unsigned) {
  return with_context([&] {
    const FakeEvent* event = known(handle);
    if (event == nullptr) return kInvalidHandle;
    if (event->event != 0) device().wait(ref(stream), event->event);
    return kSuccess;
  });
}
FAKE cuStreamGetCaptureInfo_v2(Stream stream, int* status, std::uint64_t* number, void**, const void***, std::size_t*) {
  return with_context([&] {
    *status = kNotCapturing;
    try {
      *number = device().capture_of(ref(stream));
      if (*number != 0) *status = kCapturing;
    } catch (const Error&) {
      *status = kCaptureBroken;
    }
    return kSuccess;
  });
}
FAKE cuStreamBeginCapture_v2(Stream stream, int) {
  return with_context([&] {
    device().begin_capture(ref(stream));
    return kSuccess;
  });
}
FAKE cuStreamEndCapture(Stream stream, void** graph) {
  return with_context([&] {
    *graph = nullptr;
    auto captured = device().end_capture(ref(stream));
    const std::scoped_lock lock(mutex);
    graphs.push_back(std::move(captured));
    *graph = graphs.back().get();
    return kSuccess;
  });
}
/// An executable graph is the graph itself.
FAKE cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = graph;
  return kSuccess;
}
FAKE cuGraphLaunch(void* executable, Stream stream) {
  return with_context([&] {
    device().replay(*static_cast<const fake::Graph*>(executable), ref(stream));
    return kSuccess;
  });
}
FAKE cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}
FAKE cuEventCreate(EventHandle* handle, unsigned) {
  return with_context([&] {
    auto* event = new FakeEvent;
    const std::scoped_lock lock(mutex);
    events.insert(event);
    *handle = reinterpret_cast<EventHandle>(event);
    return kSuccess;
  });
}
FAKE cuEventRecord(EventHandle handle, Stream stream) {
  return with_context([&] {
    FakeEvent* event = known(handle);
    if (event == nullptr) return kInvalidHandle;
    if (event->event != 0) device().release(event->event);
    event->event = device().record(ref(stream));
    return kSuccess;
  });
}
FAKE cuEventQuery(EventHandle handle) {
  return with_context([&] {
    const FakeEvent* event = known(handle);
    if (event == nullptr) return kInvalidHandle;
    if (breaks_a_capture()) return kCaptureUnsupported;
    return event->event == 0 || device().query(event->event) ? kSuccess : kNotReady;
  });
}
FAKE cuEventDestroy_v2(EventHandle handle) {
  FakeEvent* event = known(handle);
  if (event == nullptr) return kInvalidHandle;
  const std::scoped_lock lock(mutex);
  if (event->event != 0) device().release(event->event);
  events.erase(event);
  delete event;
  return kSuccess;
}
FAKE cuModuleLoadData(Library* library, const void*) {
  return with_context([&] {
    *library = reinterpret_cast<Library>(&functions);
    ++images;
    return kSuccess;
  });
}
FAKE cuModuleUnload(Library library) {
  return with_context([&] {
    if (library != reinterpret_cast<Library>(&functions) || images == 0) return kInvalidHandle;
    --images;
    return kSuccess;
  });
}
/// The images that are loaded.
FAKE fake_cuda_images() { return images; }
FAKE cuModuleGetFunction(Function* function, Library, const char* name) {
  if (!std::string(name).starts_with("sinew_combine_") && !fake::has_kernel(name)) return kNotFound;
  const std::scoped_lock lock(mutex);
  *function = reinterpret_cast<Function>(const_cast<std::string*>(&*functions.insert(name).first));
  return kSuccess;
}
FAKE cuLaunchKernel(Function function, unsigned teams, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    Stream stream, void** arguments, void**) {
  return with_context([&] {
    const auto& name = *reinterpret_cast<const std::string*>(function);
    if (!fake::run_kernel(name, arguments[0], teams, stream)) run_combine(name, arguments, stream);
    return kSuccess;
  });
}
FAKE cuIpcGetMemHandle(IpcMemory* handle, Pointer memory) {
  return with_context([&] {
    std::memset(handle, 0, sizeof *handle);
    return fake::export_memory(bytes(memory), handle->reserved) ? kSuccess : kInvalidValue;
  });
}
FAKE cuIpcOpenMemHandle_v2(Pointer* memory, IpcMemory handle, unsigned) {
  return with_context([&] {
    std::byte* mapped = fake::import_memory(handle.reserved, device_of(current.back()));
    if (mapped == nullptr) return kInvalidValue;
    *memory = reinterpret_cast<Pointer>(mapped);
    return kSuccess;
  });
}
FAKE cuIpcCloseMemHandle(Pointer memory) { return cuMemFree_v2(memory); }
