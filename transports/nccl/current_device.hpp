#pragma once

#include <sinew/core/transport/device.hpp>

namespace sinew::nccl {

/// NCCL takes the device of the thread; the thread has its own again when this ends.
class CurrentDevice {
 public:
  CurrentDevice(DeviceRuntime& runtime, int device) : runtime_(runtime), before_(runtime.make_current(device)) {}
  ~CurrentDevice() { runtime_.make_current(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  DeviceRuntime& runtime_;
  const int before_;
};

}  // namespace sinew::nccl
