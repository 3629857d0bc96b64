#pragma once

#include <sinew/core/transport/device.hpp>

namespace sinew::parallel {

/// The image with the kernels of team_kernels.hpp.
const DeviceProgram& device_program();

}  // namespace sinew::parallel
