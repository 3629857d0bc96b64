#pragma once

#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// A device of this machine for an engine, with a runtime and a stream of its own.
/// Thread:   one at a time, as ComputeDevice. It is not the World's runtime, so it may be used with Threads::Multiple.
/// Lifetime: longer than all that computes there.
class SINEW_API OpenedDevice {
 public:
  /// name:          "cuda:1" is the second device that CUDA shows to this process. "cuda" is the device whose number is
  ///                place_on_host modulo the number of devices. A World takes that one, too.
  /// place_on_host: the rank's place among the ranks of its host.
  /// Errors: InvalidArgument for another name, or for a number that no device has. Unavailable, with the reason, if
  ///         there is no device.
  explicit OpenedDevice(const std::string& name, int place_on_host = 0);
  ~OpenedDevice();
  OpenedDevice(const OpenedDevice&) = delete;
  OpenedDevice& operator=(const OpenedDevice&) = delete;

  ComputeDevice device() const noexcept { return {runtime_.get(), stream_}; }

 private:
  std::unique_ptr<DeviceRuntime> runtime_;
  StreamRef stream_{};
};

}  // namespace sinew::parallel
