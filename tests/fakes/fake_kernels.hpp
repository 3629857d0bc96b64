#pragma once

#include "fakes/fake_device.hpp"

namespace sinew::fake {

/// Lets the fake devices of this process run the kernels of parallel/kernels.
SINEW_FAKE_API void add_parallel_kernels();

}  // namespace sinew::fake
