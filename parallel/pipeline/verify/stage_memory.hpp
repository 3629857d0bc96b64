#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// Bytes of a stage that exist only during a part of a step.
struct StageBytes {
  std::int64_t parameters = 0;  ///< the whole parameters, from Unshard to Reshard. 0: they stay
  std::int64_t gradients = 0;   ///< the whole gradients, from the first one to the end of their Reduce. 0: they stay
  std::int64_t shard = 0;       ///< a rank's part of the gradients: a second Reduce needs it beside the first sum

  friend bool operator==(const StageBytes&, const StageBytes&) = default;
};

/// The most bytes of a rank at a time.
struct StagePeak {
  std::int64_t bytes = 0;
  std::int64_t parameters = 0;  ///< the most gathered parameters, perhaps at another time
  std::int32_t index = 0;       ///< of the action at which the rank first holds `bytes`
};

/// The memory that stages of a schedule need beside what a rank always holds.
struct StageMemory {
  std::vector<StagePeak> most;  ///< by rank
};

/// Computes the memory of a schedule that prove() passes. A Reduce takes time, so the gradients stay until the rank
/// waits for their sum. It waits where a stage begins to add gradients, for all sums but those that began after the
/// last such place. It also waits where an unsharded stage first computes, for all sums that began before its Unshard.
/// Shape: bytes: one for each stage.
/// Units: bytes
/// Cost:  a few memory accesses for each action.
SINEW_API StageMemory stage_memory(const PipelineSchedule& schedule, const std::vector<StageBytes>& bytes);

}  // namespace sinew::parallel
