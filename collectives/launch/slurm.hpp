#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// A node of an allocation, and how many tasks it has room for there.
struct SlurmNode {
  std::string name;
  int tasks = 0;
};

/// The nodes that a process may start tasks on: of the batch script or salloc's shell it is in. nullopt where there is
/// no allocation, and in one of several tasks that srun has started: the nodes are for all of them.
/// Errors: Error{InvalidArgument} naming the variables that are wrong or contradict each other.
SINEW_API std::optional<std::vector<SlurmNode>> slurm_allocation(const Lookup& lookup);

/// What srun has told a task of one of its steps.
struct SlurmStep {
  int task = 0;
  int tasks = 1;
  int local_task = 0;
  int local_tasks = 1;
  std::string first_node;  ///< where task 0 is
  std::string name;        ///< of job and step, the same for all tasks and no others
  std::uint16_t port = 0;  ///< for task 0 to listen at: another one for most other jobs and steps
};

/// nullopt in a process that is not one of srun's tasks: a batch script and salloc's shell have SLURM_PROCID too, but
/// they are alone. Errors: Error{InvalidArgument} naming the variables, also where srun's task has lost some of them.
SINEW_API std::optional<SlurmStep> slurm_step(const Lookup& lookup);

}  // namespace sinew
