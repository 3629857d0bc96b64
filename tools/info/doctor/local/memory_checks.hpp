#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Checks if this host has the memory that its ranks will take. The limits are those of control groups, the memory that
/// is available, and the memory that the kernel promises. A job fails only if it is known how much memory ranks take,
/// and swap space does not make up for the rest.
Finding check_memory(const HostLimits& host, const JobShape& job);

/// Checks for huge pages that lie unused in a pool, and for transparent huge pages.
Finding check_huge_pages(const HostLimits& host);

}  // namespace sinew::doctor
