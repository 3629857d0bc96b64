#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew::parallel {

/// What of a strategy's memory is in the host's though its engine computes on a device.
/// Source: ZeRO-Offload (arXiv 2101.06840); offload_policy of PyTorch's FSDP2.
enum class Offload : std::uint8_t {
  Nothing,                 ///< parameters, gradients and the optimizer's state are where the engine computes
  ParametersAndOptimizer,  ///< shards and the optimizer's state are the host's; gathered wholes are the device's
};

/// The device on which an engine computes.
/// Thread: nobody else uses `runtime` meanwhile: with Threads::Multiple it is another than the World's.
struct DataDevice {
  DeviceRuntime* runtime = nullptr;  ///< null: it computes on the host
  StreamRef stream{};                ///< the engine's: copies and exchanges come after what it holds
};

/// Copies and zeroes memory of the host, or in the order of a device's stream.
class SINEW_API Copies {
 public:
  Copies() = default;
  explicit Copies(const DataDevice& device) : device_(device) {}

  bool on_device() const noexcept { return device_.runtime != nullptr; }
  StreamRef stream() const noexcept { return device_.stream; }
  /// Zeroed memory of the device.
  Memory allocate(std::size_t bytes);
  void zero(Buffer memory);
  /// On a device it may go on: settle() waits for all that have begun.
  void begin(Buffer to, ConstBuffer from);
  void settle();

 private:
  DataDevice device_;
  std::vector<std::byte> zeros_;  // what device memory is zeroed from
};

}  // namespace sinew::parallel
