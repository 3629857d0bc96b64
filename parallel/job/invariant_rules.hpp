#pragma once

#include <vector>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

/// The rules of job_rules.hpp about layout-invariant sums. They refuse whatever would let bits depend on the layout.
std::vector<JobRule> invariant_rules();

}  // namespace sinew::parallel
