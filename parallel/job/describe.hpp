#pragma once

#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// Layout, batches, precision, and predicted memory of a rank, as text for people.
/// Shape: a configuration that breaks no rule.
SINEW_API std::string describe(int ranks, const JobConfig& config, const EngineFacts& engine);

}  // namespace sinew::parallel
