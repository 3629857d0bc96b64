#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// A job that goes on with fewer ranks.
struct SurvivingJob {
  int ranks = 0;  ///< the first of the ranks that are left; others have nothing to do
  JobConfig config;
};

/// The configuration with which a job goes on when `left` of its ranks are left. tp, cp, pp and etp stay. There are as
/// many data-parallel ranks as possible. Experts are spread over the most ranks that divide them. The global batch is
/// the largest one, up to the requested one, that the data-parallel ranks share evenly. Replicas are as many as divide
/// the data-parallel ranks. The result has the most ranks for which no rule is broken.
/// asked: the configuration with which the job began, not one that it had later.
/// Errors: InvalidArgument, with the rules that all `left` ranks break, if no number of ranks can go on.
SINEW_API SurvivingJob surviving_job(int left, const JobConfig& asked, const EngineFacts& engine);

/// Returns whether each rank holds the whole state of the job between steps, so that any of them can go on alone. If
/// ranks hold parts, a second copy of each part is not enough: of the two ranks that hold a part, one may have ended a
/// step that the other has not.
SINEW_API bool is_held_by_each(const JobConfig& config) noexcept;

}  // namespace sinew::parallel
