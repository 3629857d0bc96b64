#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Whether this host's ranks find the memory that they will take: by its control groups, by what the machine has left,
/// and by what the kernel promises. Fails where it is known what they take and no swap space makes up for the rest.
Finding check_memory(const HostLimits& host, const JobShape& job);

/// Huge pages that lie idle in a pool, and transparent ones.
Finding check_huge_pages(const HostLimits& host);

}  // namespace sinew::doctor
