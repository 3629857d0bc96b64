#pragma once

#include <vector>

#include <sinew/parallel/job/job_changes.hpp>

namespace sinew::parallel {

/// Those of job_rules.hpp that are about what the engine can be cut into: layers, samples, stages.
std::vector<JobRule> engine_rules();

/// None of these is broken that a prediction needs.
bool fits_engine(const JobRequest& asked);

}  // namespace sinew::parallel
