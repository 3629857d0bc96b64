#pragma once

#include <vector>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

/// The rules of job_rules.hpp about how the engine can be cut: layers, samples, stages.
std::vector<JobRule> engine_rules();

/// Returns whether the request keeps all rules that a prediction needs.
bool fits_engine(const JobRequest& asked);

}  // namespace sinew::parallel
