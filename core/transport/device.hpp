#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// A device starts work of its High streams first when several streams have work that can start.
enum class StreamPriority : std::uint8_t { Normal, High };

/// Kernels that were compiled for devices. A runtime loads the image on a device when it first launches one of them
/// there.
struct DeviceProgram {
  const char* name = "";        ///< in errors
  const void* image = nullptr;  ///< a fat binary of CUDA; null: this build has none, because nvcc was not found
};

/// One start of a kernel. A team is a group of threads that share memory and can wait for each other: a block of CUDA.
struct KernelLaunch {
  const char* kernel = "";
  unsigned teams = 1;
  unsigned threads = 1;            ///< of each team
  const void* argument = nullptr;  ///< the only argument of the kernel, a structure; it is copied
};

/// The interface of an accelerator's runtime. transports/cuda implements it for CUDA, and tests have a fake one.
/// No function blocks. Work on one stream runs in the order in which it was enqueued. Different streams run
/// independently. query() tells whether work has run.
/// Thread: one thread at a time. A second thread may call wait(), query() and release(Event): it waits for a call while
///         the first thread makes progress.
/// Errors: every function that is not noexcept throws Error{System} with the runtime's text.
class DeviceRuntime {
 public:
  using Event = std::uint64_t;
  /// Properties of a device.
  struct Traits {
    std::string bus_id;          ///< the device's PCI address, such as "0000:3b:00.0"; unique on its host
    int compute_capability = 0;  ///< ten times CUDA's number: 90 for 9.0
    int multiprocessors = 1;     ///< each runs one team or several at a time
  };

  virtual ~DeviceRuntime() = default;
  virtual int device_count() = 0;
  virtual Traits traits(int device) = 0;
  /// Returns the kind of memory at this address. Memory that the runtime does not know is Host.
  virtual Place place_of(const void* address) = 0;
  /// Allocates memory of a device, or PinnedHost memory, from and to which devices copy at full rate.
  virtual Buffer allocate(std::size_t bytes, Place place) = 0;
  virtual void release(Buffer memory) noexcept = 0;
  /// Makes a stream that does not wait for any other stream, including the default stream.
  virtual StreamRef make_stream(int device, StreamPriority priority) = 0;
  StreamRef make_stream(int device) { return make_stream(device, StreamPriority::Normal); }
  virtual void release(StreamRef stream) noexcept = 0;
  /// Returns the number of the capture that the stream is part of: its work is recorded into a graph that runs later.
  /// The number is equal for all streams of one capture, and no other capture of the process has it. Returns 0 if the
  /// stream is not being captured.
  /// Errors: Error{InvalidArgument} if the capture is broken, so that it will give no graph.
  virtual std::uint64_t capture_of(StreamRef stream) = 0;
  /// Copies between any two kinds of memory.
  virtual void copy_async(Buffer to, ConstBuffer from, StreamRef stream) = 0;
  /// Copies `rows` runs of `row_bytes` bytes. They begin `from_pitch` bytes apart in `from` and `to_pitch` in `to`.
  virtual void copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch,
                               std::size_t row_bytes, std::size_t rows, StreamRef stream) = 0;
  /// Computes dst = a (op) b. `dst` may be `a`.
  virtual void reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) = 0;
  /// Sets all bytes to 0.
  virtual void zero_async(Buffer memory, StreamRef stream) = 0;
  /// Errors: Error{Unavailable} if the program has no image.
  virtual void launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) = 0;
  /// Returns an event after the work that is on the stream now. If the stream is being captured, the event belongs to
  /// that capture. Only streams of the capture may wait for such an event, and query() refuses it.
  virtual Event record(StreamRef stream) = 0;
  /// Lets later work of the stream start only after the event.
  virtual void wait(StreamRef stream, Event event) = 0;
  /// True if the work before the event has run. May be called while a stream of the process is captured into a graph.
  virtual bool query(Event event) = 0;
  /// Sets the calling thread's current device, which libraries use that are passed no device. Returns the one before,
  /// or -1 if there was none. That value may be passed, too.
  /// Thread: any, at any time.
  virtual int make_current(int device) = 0;
  virtual void release(Event event) noexcept = 0;
};

/// The event after which streams may use a call's result. Whoever enqueues the call's last work sets it, once.
class DeviceMark {
 public:
  bool set() const noexcept { return runtime_.load(std::memory_order_acquire) != nullptr; }
  /// `capture`: the capture that the event belongs to; 0: none.
  void set(DeviceRuntime& runtime, DeviceRuntime::Event event, std::uint64_t capture = 0) noexcept {
    event_ = event;
    capture_ = capture;
    runtime_.store(&runtime, std::memory_order_release);
  }
  /// True if the call was captured into a graph. Precondition: set().
  bool captured() const noexcept { return capture_ != 0; }
  /// Lets the stream wait for the result. Precondition: set().
  /// Errors: Error{InvalidArgument} if the call was captured and the stream is not part of that capture.
  SINEW_API void order(StreamRef stream) const;
  void clear() noexcept {
    if (DeviceRuntime* runtime = runtime_.exchange(nullptr, std::memory_order_relaxed)) runtime->release(event_);
  }

 private:
  std::atomic<DeviceRuntime*> runtime_{nullptr};
  DeviceRuntime::Event event_ = 0;
  std::uint64_t capture_ = 0;
};

}  // namespace sinew
