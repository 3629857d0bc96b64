#pragma once

#include <thread>

#include <sinew/core/deadline.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// Waits until the work that is on the stream now has run, or until the deadline. The thread yields meanwhile. Returns
/// whether the work has run. It makes no progress of a World, and a stream may wait for a call in flight. So call
/// Work::get() of these calls first: it makes progress, and ends if a rank is dead.
/// Errors: Error{System} with the runtime's text.
inline bool is_drained(DeviceRuntime& runtime, StreamRef stream, Deadline deadline) {
  struct Recorded {
    DeviceRuntime& runtime;
    DeviceRuntime::Event event;
    ~Recorded() { runtime.release(event); }
  };
  const Recorded recorded{runtime, runtime.record(stream)};
  while (!runtime.query(recorded.event)) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

/// As is_drained(), without a deadline.
inline void drain(DeviceRuntime& runtime, StreamRef stream) { (void)is_drained(runtime, stream, Deadline::never()); }

}  // namespace sinew
