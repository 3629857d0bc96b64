#pragma once

#include <sinew/core/transport/device.hpp>

namespace sinew {

/// Makes a device the current one of this thread, for libraries that are passed no device. The destructor restores the
/// device that was current before.
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

}  // namespace sinew
