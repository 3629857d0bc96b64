#pragma once

#include <vector>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

/// Those of job_rules.hpp that are about layout-invariant sums: what would let the layout show in a bit is refused.
std::vector<JobRule> invariant_rules();

}  // namespace sinew::parallel
