#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// What schedule_of() made of some settings, once.
struct ProvedSchedule {
  std::string name;  ///< JobConfig::schedule; the other settings likewise
  int pp = 1, virtual_stages = 1;
  std::int64_t micro_batches = 1;
  PipelineSchedule schedule;
};

/// For JobConfig::proved: a file is read once then, so that all goes by what was in it, and nothing is proved again.
/// Null where there is one stage, or no such schedule: schedule_of() says why; and for more than 2^20 passes, which
/// rules are to judge first.
SINEW_API std::shared_ptr<const ProvedSchedule> proved_schedule(const JobConfig& config);

/// The schedule that a configuration asks for, with its messages: of a generator by its name, or of a CSV file where
/// `schedule` ends with ".csv"; compute alone, or with messages, too.
/// Errors: InvalidArgument as make_schedule and from_csv; for a file that cannot be read, or is of other ranks, stages
///         or micro-batches than the configuration; with its reason for one that does not pass prove().
SINEW_API PipelineSchedule schedule_of(const JobConfig& config);

/// Whether gradients of weights are made apart from those of inputs.
SINEW_API bool has_late_weights(const PipelineSchedule& schedule) noexcept;

/// Micro-batches whose activations are there at once, by stage: from their forward pass to the last of their gradients,
/// whatever of them is computed again.
SINEW_API std::vector<std::int32_t> most_live(const PipelineSchedule& schedule);

}  // namespace sinew::parallel
