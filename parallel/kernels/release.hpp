#pragma once

#include <chrono>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>

namespace sinew::parallel {

/// Frees memory of a device when the work that is on its stream now has run. Waits for that. After five minutes the
/// memory is kept, because a stream that a dead rank hangs may still use it. Exchanges end within their own timeout
/// before.
inline void release_after_work(const ComputeDevice& device, Buffer memory) noexcept {
  constexpr Duration kLongest = std::chrono::minutes(5);
  try {
    if (!is_drained(*device.runtime, device.stream, Deadline::after(kLongest))) return;
  } catch (const Error&) {  // the device is lost: nothing runs there any more
  }
  device.runtime->release(memory);
}

}  // namespace sinew::parallel
