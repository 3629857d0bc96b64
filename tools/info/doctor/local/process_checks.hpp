#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// The most descriptors that one rank of a job has open at once: for its peers of this host, and for each other host a
/// connection for control and one per network.
std::uint64_t descriptors_needed(const JobShape& job) noexcept;
/// Fails a job whose ranks could not even meet. With more descriptors, but fewer than the most that a rank may need, it
/// depends on libraries and calls.
Finding check_descriptors(const HostLimits& host, const JobShape& job);

/// Processes and threads, as control groups and the user's limits allow. Fails a job if not every rank can start the
/// one thread that it must have.
Finding check_tasks(const HostLimits& host, const JobShape& job);

/// Address space and locked memory, where they are limited.
std::vector<Finding> check_mappings(const HostLimits& host);

}  // namespace sinew::doctor
