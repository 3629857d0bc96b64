#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/parallel/data_parallel/plan/options.hpp>

namespace sinew::parallel {

/// Copies and zeroes memory. On the host this happens at once; on a device it happens in the order of the device's
/// stream.
class SINEW_API Copies {
 public:
  Copies() = default;
  explicit Copies(const DataDevice& device) : device_(device) {}

  bool on_device() const noexcept { return device_.runtime != nullptr; }
  StreamRef stream() const noexcept { return device_.stream; }
  /// Memory of the device, zeroed.
  Memory allocate(std::size_t bytes);
  void zero(Buffer memory);
  /// Starts a copy. On a device the copy may still run when begin() returns; settle() waits for all copies.
  void begin(Buffer to, ConstBuffer from);
  void settle();

 private:
  DataDevice device_;
  std::vector<std::byte> zeros_;  // zeros on the host, from which device memory is zeroed
};

}  // namespace sinew::parallel
