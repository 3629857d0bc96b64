#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// What the library needs of an accelerator. CUDA implements it; tests have a fake one.
/// Thread:   one thread at a time; wait(), query() and release(Event) also from a second one: who waits for a call
///           orders streams behind it, and gives its event back, while another thread drives. Nothing blocks: what is
///           enqueued on a stream runs in its order, streams run as they like, and query() says what has come.
/// Errors:   every call that is not noexcept throws Error{System} with the runtime's text.
class DeviceRuntime {
 public:
  using Event = std::uint64_t;
  /// What libraries judge a device by.
  struct Traits {
    std::string bus_id;          ///< one of its host has it: "0000:3b:00.0", also where only some devices are visible
    int compute_capability = 0;  ///< 90: 9.0
  };

  virtual ~DeviceRuntime() = default;
  virtual int device_count() = 0;
  virtual Traits traits(int device) = 0;
  /// Where this address lies: Host for memory that the runtime does not know.
  virtual Place place_of(const void* address) = 0;
  /// `place`: memory of a device, or of the host that devices copy from and to at full rate (PinnedHost).
  virtual Buffer allocate(std::size_t bytes, Place place) = 0;
  virtual void release(Buffer memory) noexcept = 0;
  /// A stream that waits for no other one, not even the default stream.
  virtual StreamRef make_stream(int device) = 0;
  virtual void release(StreamRef stream) noexcept = 0;
  /// Whether what is put on the stream is recorded into a graph, to be run later, instead of run.
  virtual bool is_capturing(StreamRef stream) = 0;
  /// Any pairing of host, pinned and device memory.
  virtual void copy_async(Buffer to, ConstBuffer from, StreamRef stream) = 0;
  /// `rows` runs of `row_bytes`, `to_pitch` and `from_pitch` bytes apart.
  virtual void copy_rows_async(Buffer to, std::size_t to_pitch, ConstBuffer from, std::size_t from_pitch,
                               std::size_t row_bytes, std::size_t rows, StreamRef stream) = 0;
  /// dst = a (op) b; dst may be a.
  virtual void reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) = 0;
  /// What the stream holds now.
  virtual Event record(StreamRef stream) = 0;
  /// Later work of the stream starts after the event.
  virtual void wait(StreamRef stream, Event event) = 0;
  /// May be asked while any stream of the process is being captured.
  virtual bool query(Event event) = 0;
  /// The device of the calling thread, by which libraries go that are told none; returns the one before, -1: none,
  /// which may be given back. Any thread, at any time.
  virtual int make_current(int device) = 0;
  virtual void release(Event event) noexcept = 0;
};

/// The event after which a call's result is there for streams. Set once, by whoever enqueued the call's last work.
class DeviceMark {
 public:
  bool set() const noexcept { return runtime_.load(std::memory_order_acquire) != nullptr; }
  void set(DeviceRuntime& runtime, DeviceRuntime::Event event) noexcept {
    event_ = event;
    runtime_.store(&runtime, std::memory_order_release);
  }
  /// Where it is set.
  void order(StreamRef stream) const { runtime_.load(std::memory_order_relaxed)->wait(stream, event_); }
  void clear() noexcept {
    if (DeviceRuntime* runtime = runtime_.exchange(nullptr, std::memory_order_relaxed)) runtime->release(event_);
  }

 private:
  std::atomic<DeviceRuntime*> runtime_{nullptr};
  DeviceRuntime::Event event_ = 0;
};

}  // namespace sinew
