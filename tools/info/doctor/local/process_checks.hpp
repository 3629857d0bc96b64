#pragma once

#include <sinew/tools/info/doctor/finding/finding.hpp>

#include "host_limits.hpp"
#include "job_shape.hpp"

namespace sinew::doctor {

/// Descriptors that one rank of a job has open at once, at most: its peers of this host, and a connection for control
/// and one per network to every other.
std::uint64_t descriptors_needed(const JobShape& job) noexcept;
/// Fails where its ranks cannot even meet; between that and what they need at most it depends on libraries and calls.
Finding check_descriptors(const HostLimits& host, const JobShape& job);

/// Processes and threads: of the control groups, and of the user. Fails where not every rank can start the one thread
/// that it must have.
Finding check_tasks(const HostLimits& host, const JobShape& job);

/// Address space and locked memory, where they are limited.
std::vector<Finding> check_mappings(const HostLimits& host);

}  // namespace sinew::doctor
