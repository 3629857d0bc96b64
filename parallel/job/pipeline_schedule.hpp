#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/export.hpp>
#include <sinew/parallel/job/job_config.hpp>
#include <sinew/parallel/pipeline/schedule.hpp>

namespace sinew::parallel {

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
