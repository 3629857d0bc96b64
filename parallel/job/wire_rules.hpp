#pragma once

#include <vector>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

/// The rules of ZeRO++: of int8 weights, int4 gradients, and near ranks.
std::vector<JobRule> wire_rules();

/// Returns whether the job breaks one of these rules, or one of them cannot be judged.
bool breaks_wire_rules(const JobRequest& asked);

}  // namespace sinew::parallel
