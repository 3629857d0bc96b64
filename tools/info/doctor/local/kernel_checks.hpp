#pragma once

#include <optional>
#include <string>

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Whether ranks may read each other's memory. If so, shm copies once, else twice. `tried`: why a rank could not read
/// another's memory; empty: it could; nullopt: there was no other rank, and the settings must tell.
Finding check_direct_reads(const HostLimits& host, const std::optional<std::string>& tried);

/// TCP's congestion control, if there are other hosts.
Finding check_congestion_control(const HostLimits& host, const JobShape& job);

/// A CPU quota that stops ranks in the middle of their work, and more ranks than cores.
Finding check_cores(const HostLimits& host, const JobShape& job);

}  // namespace sinew::doctor
