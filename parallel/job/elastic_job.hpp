#pragma once

#include <optional>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// The configuration with which a job that gains and loses ranks goes on with exactly `ranks` of them. The global batch
/// stays, so each step has the same samples and the same mean of losses with any number of ranks. tp, cp, pp and etp
/// stay, too. Experts are dealt anew: ep is the largest one, up to the requested one, for which no rule is broken.
/// Micro-batches become more, so that each is no longer than in a job of `most` ranks. Replicas are as many as divide
/// the data-parallel ranks.
/// Returns nullopt if the job cannot run with so many ranks.
/// asked: the configuration with which the job began. most: the largest number of ranks that it may have.
SINEW_API std::optional<JobConfig> elastic_job(int ranks, int most, const JobConfig& asked, const EngineFacts& engine);

/// The numbers of ranks, up to `most`, for which elastic_job() has a configuration, ascending. They are
/// WorldOptions::counts. Empty if there are none.
SINEW_API std::vector<int> elastic_counts(int most, const JobConfig& asked, const EngineFacts& engine);

}  // namespace sinew::parallel
