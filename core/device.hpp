#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call_options.hpp>
#include <sinew/core/reduce.hpp>

namespace sinew {

/// What the library needs of an accelerator. CUDA implements it; tests have a fake one.
/// Errors: every call throws Error{System} with the runtime's text.
class DeviceRuntime {
 public:
  using Event = std::uint64_t;

  virtual ~DeviceRuntime() = default;
  virtual int device_count() = 0;
  virtual Buffer allocate(std::size_t bytes, Place place) = 0;
  virtual void release(Buffer memory) noexcept = 0;
  /// Enqueued on the stream; any pairing of host, pinned and device memory.
  virtual void copy_async(Buffer to, ConstBuffer from, StreamRef stream) = 0;
  /// dst = a (op) b, on the stream.
  virtual void reduce_async(Buffer dst, ConstBuffer a, ConstBuffer b, ReduceOp op, DType dtype, StreamRef stream) = 0;
  virtual Event record(StreamRef stream) = 0;
  virtual void wait(StreamRef stream, Event event) = 0;
  virtual bool query(Event event) = 0;
  virtual void release(Event event) noexcept = 0;
};

}  // namespace sinew
