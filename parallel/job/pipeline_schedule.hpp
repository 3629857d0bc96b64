#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// The result of schedule_of() for some settings, kept.
struct ProvedSchedule {
  std::string name;  ///< JobConfig::schedule; the other settings are those of the same names
  int pp = 1, virtual_stages = 1;
  std::int64_t micro_batches = 1;
  PipelineSchedule schedule;
};

/// For JobConfig::proved. A file is then read once, so that everything uses the same content. The schedule is proved
/// once. null if there is one stage, and if there is no such schedule: schedule_of() says why. null also for more than
/// 2^20 passes, which rules must judge first.
SINEW_API std::shared_ptr<const ProvedSchedule> proved_schedule(const JobConfig& config);

/// The schedule that a configuration asks for, with its messages. It comes from a generator by name, or from a CSV file
/// if `schedule` ends with ".csv". A file may have compute alone, or messages too.
/// Errors: InvalidArgument as make_schedule and from_csv. InvalidArgument for a file that cannot be read, or has other
///         ranks, stages or microbatches than the configuration. InvalidArgument with the reason for a schedule that
///         prove() refuses.
SINEW_API PipelineSchedule schedule_of(const JobConfig& config);

/// Returns whether gradients of weights are computed separately from those of inputs.
SINEW_API bool has_late_weights(const PipelineSchedule& schedule) noexcept;

}  // namespace sinew::parallel
