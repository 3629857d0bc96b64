#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// Layout, batches, precision and what a rank is predicted to take: what a job says of itself before it starts.
/// Of a configuration that breaks no rule.
SINEW_API std::string describe(int ranks, const JobConfig& config, const EngineFacts& engine);

}  // namespace sinew::parallel
