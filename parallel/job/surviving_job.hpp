#pragma once

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/engine_facts.hpp>
#include <sinew/parallel/job/job_config.hpp>

namespace sinew::parallel {

/// A job that goes on with fewer ranks.
struct SurvivingJob {
  int ranks = 0;  ///< the first so many of those that are left; the others have nothing to do
  JobConfig config;
};

/// What becomes of a job when `left` ranks are left of it: tp, cp, pp and etp as they were; as many data-parallel ranks
/// as there are left, experts spread over the most that divide them; the largest global batch, of what was asked for,
/// that these share evenly; replicas as many as divide them. Of as many ranks as break no rule.
/// asked: as the job began, not as it became.
/// Errors: InvalidArgument, with the rules that all `left` ranks break, where no number of them can.
SINEW_API SurvivingJob surviving_job(int left, const JobConfig& asked, const EngineFacts& engine);

/// Whether each rank holds all of the job's state between steps, so that any one of them can go on alone. Where ranks
/// hold parts a second copy of each is not enough: of two ranks that are left one may have ended a step that the other
/// has not.
SINEW_API bool is_held_by_each(const JobConfig& config) noexcept;

}  // namespace sinew::parallel
