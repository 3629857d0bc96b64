#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// All checks that one host makes of itself. `tried`: as for check_direct_reads.
std::vector<Finding> check_host(const HostLimits& host, const JobShape& job, const std::optional<std::string>& tried);

}  // namespace sinew::doctor
