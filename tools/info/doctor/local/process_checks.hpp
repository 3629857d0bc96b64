#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// The most descriptors that one rank of a job has open at once. Each peer of another host takes a descriptor for each
/// network and one more.
std::uint64_t descriptors_needed(const JobShape& job) noexcept;
/// Checks the limit of descriptors. Fails a job whose ranks could not even meet. Warns if the limit is above that, but
/// below the most that a rank may need: then it depends on libraries and calls whether the job works.
Finding check_descriptors(const HostLimits& host, const JobShape& job);

/// Checks how many processes and threads control groups and the user's limits allow. Fails a job if some rank cannot
/// start the one thread that it must have.
Finding check_tasks(const HostLimits& host, const JobShape& job);

/// Warns of limits of the address space and of locked memory.
std::vector<Finding> check_mappings(const HostLimits& host);

}  // namespace sinew::doctor
