#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// Copies, zeroes and adds memory. On the host this happens at once; on a device it happens in the order of the
/// device's stream.
class SINEW_API Copies {
 public:
  Copies() = default;
  explicit Copies(const ComputeDevice& device) : device_(device) {}

  bool on_device() const noexcept { return device_.exists(); }
  const ComputeDevice& device() const noexcept { return device_; }
  /// Memory of the device. It is freed after the work that is on the stream then.
  Memory allocate(std::size_t bytes) const;
  void zero(Buffer memory);
  /// Starts a copy. On a device the copy may still run when begin() returns; settle() waits for all copies.
  void begin(Buffer to, ConstBuffer from);
  void settle();
  /// into += more.
  void add(Buffer into, ConstBuffer more, DType dtype);
  /// Lets `write` fill host memory for `to`, which is `to` itself where that is the host's. On a device it is then
  /// copied, which has happened when fill() returns.
  void fill(Buffer to, const std::function<void(Buffer)>& write);

 private:
  ComputeDevice device_;
};

}  // namespace sinew::parallel
