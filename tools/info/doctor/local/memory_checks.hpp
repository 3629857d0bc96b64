#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Whether this host has the memory that its ranks will take: by its control groups, by what is left, and by what the
/// kernel promises. Fails a job only if it is known how much ranks take and no swap space makes up for what is missing.
Finding check_memory(const HostLimits& host, const JobShape& job);

/// Huge pages that lie unused in a pool, and transparent huge pages.
Finding check_huge_pages(const HostLimits& host);

}  // namespace sinew::doctor
