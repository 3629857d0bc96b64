#pragma once

#include <cstdint>
#include <string>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/lookup.hpp>

namespace sinew {

/// What a launcher has told this process, checked.
struct LaunchVariables {
  LaunchKind kind = LaunchKind::Alone;
  int rank = 0;
  int ranks = 1;
  int local_rank = -1;
  int local_ranks = -1;
  std::string master_host;  ///< Variables, Slurm
  std::uint16_t master_port = 0;
  bool port_taken = false;  ///< an agent of torchrun listens there already
  std::string job;          ///< SINEW_JOB, or Slurm's numbers
  int pmi_descriptor = -1;  ///< Pmi1
};

/// Decides by what is set: RANK and its companions first, because whoever sets them is nearest, then PMIx, PMI-1 and
/// what srun sets by itself.
/// Errors: Error{InvalidArgument} naming the variable with its value, or which are set and which are missing.
LaunchVariables read_launch_variables(const Lookup& lookup);

}  // namespace sinew
