#pragma once

#include <thread>

#include <sinew/core/transport/device.hpp>

namespace sinew {

/// Waits until the work that is on the stream now has run. The thread yields meanwhile.
/// Errors: Error{System} with the runtime's text.
inline void drain(DeviceRuntime& runtime, StreamRef stream) {
  const DeviceRuntime::Event event = runtime.record(stream);
  while (!runtime.query(event)) std::this_thread::yield();
  runtime.release(event);
}

}  // namespace sinew
