#pragma once

// Kernels for devices, each written once. The image for CUDA is compiled from them, and so are the kernels of the fake
// devices that tests use. The room includes nothing else of `parallel` but random numbers and the constants of update
// rules.

#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew::parallel {

/// The device on which an engine computes.
/// Thread: nobody else uses `runtime` at the same time. With Threads::Multiple it is therefore not the World's runtime.
struct ComputeDevice {
  DeviceRuntime* runtime = nullptr;  ///< null: the engine computes on the host
  StreamRef stream{};                ///< the engine's stream; copies and exchanges run after the work that is on it

  bool exists() const noexcept { return runtime != nullptr; }
};

}  // namespace sinew::parallel
