#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <sinew/core/transport/device.hpp>

namespace sinew::fake {

#define SINEW_FAKE_API __attribute__((visibility("default")))

struct Graph;

/// Work on a stream. false: cannot run yet, because it waits for another rank; it is tried again.
using Step = std::function<bool()>;

/// The devices pause after so many steps in the mean, so that the host is now ahead of them and now behind: 4 if nobody
/// calls this. More make long tests shorter.
SINEW_FAKE_API void pause_after(unsigned steps);

/// For fakes of libraries that are given raw streams and addresses.
SINEW_FAKE_API void enqueue(void* stream, Step step);
/// The same for a step that keeps a state. Each run, and each replay of a graph, makes a new step.
SINEW_FAKE_API void enqueue_made(void* stream, std::function<Step()> make);
SINEW_FAKE_API bool is_capturing(const void* stream);
/// Where the bytes of device memory can be touched; the address itself for other memory.
/// Errors: std::out_of_range where [address, address + bytes) is not within one allocation.
SINEW_FAKE_API std::byte* bytes_of(const void* address, std::size_t bytes);

/// An allocation: its first byte, and its number among those of this process. Null and 0: there is none.
struct AllocationOf {
  const std::byte* first = nullptr;
  std::uint64_t number = 0;
};
SINEW_FAKE_API AllocationOf allocation_of(const void* address);
/// Lets another process of this user have an allocation, for as long as this one keeps it. false: not device memory.
SINEW_FAKE_API bool export_memory(const std::byte* memory, char (&handle)[64]);
/// nullptr: no such allocation any more, or of this very process, which CUDA refuses too.
SINEW_FAKE_API std::byte* import_memory(const char (&handle)[64], int device);
/// True if any stream of the process is being captured.
SINEW_FAKE_API bool any_stream_is_capturing();
/// The priority of the stream that was made last.
SINEW_FAKE_API StreamPriority last_priority();
/// The device that make_current() set last on this thread; -1: none.
SINEW_FAKE_API int current_device();

/// Makes the work of one launch of a kernel: a function that runs on the host all that the kernel's teams do. It is
/// called when the kernel is launched, and copies what it needs of the argument.
using KernelMaker = std::function<std::function<void()>(const void* argument, unsigned teams)>;
/// Lets launches find a kernel by its name. Programs have no images here.
SINEW_FAKE_API void add_kernel(std::string name, KernelMaker make);
SINEW_FAKE_API bool has_kernel(std::string_view name);
/// Puts a launch on a stream. false: there is no such kernel.
SINEW_FAKE_API bool run_kernel(std::string_view name, const void* argument, unsigned teams, void* stream);

/// Accelerators that are strict: their memory faults when the host touches it, a copy beyond an allocation throws,
/// and streams run in any order among each other, each of them late. Streams, memory and the thread that runs them
/// belong to the process; this object is one rank's view.
class SINEW_FAKE_API Device : public DeviceRuntime {
 public:
  explicit Device(int devices = 4, int compute_capability = 90)
      : devices_(devices), compute_capability_(compute_capability) {}
  /// The next call that can fail throws with this text.
  void fail_next(std::string text) { failure_ = std::move(text); }
  /// The next allocation of device memory throws with this text.
  void fail_next_allocation(std::string text) { no_memory_ = std::move(text); }
  /// Work that is put on the stream is recorded from now on. So is work on streams that wait for the stream's events.
  void begin_capture(StreamRef stream);
  /// Ends the capture that began on this stream.
  /// Errors: Error{System}: the capture was broken, or a stream was not joined. All streams have left it even then.
  std::shared_ptr<Graph> end_capture(StreamRef stream);
  /// Breaks the capture that the stream is part of, as a forbidden call does.
  void break_capture(StreamRef stream);
  /// The bytes that were copied between device memory and pinned memory of the host, by this object's copies.
  struct Copied {
    std::uint64_t to_host = 0;
    std::uint64_t from_host = 0;
  };
  Copied copied() const noexcept { return {to_host_.load(), from_host_.load()}; }
  /// Runs a graph on the stream.
  void replay(const Graph& graph, StreamRef stream);

  int device_count() override { return devices_; }
  Traits traits(int device) override;
  Place place_of(const void* address) override;
  Buffer allocate(std::size_t bytes, Place place) override;
  void release(Buffer memory) noexcept override;
  using DeviceRuntime::make_stream;
  StreamRef make_stream(int device, StreamPriority priority) override;
  void release(StreamRef stream) noexcept override;
  std::uint64_t capture_of(StreamRef stream) override;
  void copy_async(Buffer to, ConstBuffer from, StreamRef stream) override;
  void copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch, std::size_t row_bytes,
                       std::size_t rows, StreamRef stream) override;
  void reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) override;
  void zero_async(Buffer memory, StreamRef stream) override;
  void launch(const DeviceProgram& program, const KernelLaunch& launch, StreamRef stream) override;
  Event record(StreamRef stream) override;
  void wait(StreamRef stream, Event event) override;
  bool query(Event event) override;
  void release(Event event) noexcept override;
  int make_current(int device) override;

 private:
  void fail_if_asked();

  int devices_;
  int compute_capability_;
  std::string failure_, no_memory_;
  std::atomic<std::uint64_t> to_host_{0};  // atomic: libcuda.so.1 of the tests has one object for all ranks
  std::atomic<std::uint64_t> from_host_{0};
};

}  // namespace sinew::fake
