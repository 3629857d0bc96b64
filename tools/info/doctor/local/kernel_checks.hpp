#pragma once

#include <optional>
#include <string>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Checks if ranks may read each other's memory. If so, shm copies once, else twice. `tried`: why a rank could not read
/// another rank's memory; empty: it could; nullopt: there was no other rank, so the kernel's settings are judged.
Finding check_direct_reads(const HostLimits& host, const std::optional<std::string>& tried);

/// Checks TCP's congestion control, if there are other hosts.
Finding check_congestion_control(const HostLimits& host, const JobShape& job);

/// Checks for a CPU quota that stops ranks in the middle of their work, and for more ranks than cores.
Finding check_cores(const HostLimits& host, const JobShape& job);

}  // namespace sinew::doctor
