#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/control/clock_offset.hpp>
#include <sinew/tools/info/doctor/finding/finding.hpp>

namespace sinew::doctor {

using sinew::ClockReading;

/// Finds clocks that are surely more than a tenth of a second apart. `readings`: of CLOCK_REALTIME, by host.
std::vector<Finding> check_clocks(std::span<const std::vector<ClockReading>> readings,
                                  std::span<const std::string> hosts);

}  // namespace sinew::doctor
