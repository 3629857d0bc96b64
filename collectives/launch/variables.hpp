#pragma once

#include <cstdint>
#include <string>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// What a launcher has told this process, checked.
struct LaunchVariables {
  LaunchKind kind = LaunchKind::Alone;
  int rank = 0;
  int ranks = 1;  ///< 0: only the launcher's server knows rank and ranks
  int local_rank = -1;
  int local_ranks = -1;
  int hosts = -1;       ///< that have ranks; -1: not said
  std::string promise;  ///< the variable that says how many ranks there are, such as "WORLD_SIZE=4"; empty: none does
  std::string spread;   ///< what the launcher says about the hosts of the ranks, for messages; empty: nothing
  bool several_hosts = false;  ///< the launcher says so; LOCAL_WORLD_SIZE does not: an agent may count its ranks only
  std::string cure;         ///< how this launcher could bring ranks of several hosts together, for messages; or empty
  std::string master_host;  ///< an address without brackets, or a name; empty: ranks of one host need none
  std::string master_said;  ///< the variable that names the master's host, such as "MASTER_ADDR=[::1]"
  std::uint16_t master_port = 0;
  bool port_taken = false;  ///< an agent of torchrun listens there already
  std::string job;          ///< SINEW_JOB, or what the launcher calls the job
  int least_ranks = 0;      ///< Elastic: SINEW_ELASTIC's first number
  int most_ranks = 0;       ///< Elastic: its second number
  int pmi_descriptor = -1;  ///< Pmi1: PMI_FD, or -1 where the server listens at pmi_port
  std::string pmi_port;     ///< Pmi1: PMI_PORT
  int pmi_id = -1;          ///< Pmi1: PMI_ID, by which the server at pmi_port knows this process
  /// Variables: the protocol of the launcher beneath, Pmix or Pmi1, if that launcher may have started these ranks.
  LaunchKind protocol = LaunchKind::Alone;
};

/// Which launcher has started this process; Alone where SINEW_ALONE=1. RANK and its companions come first, because the
/// nearest sets them. PMIx and PMI-1 follow, then launchers whose variables only promise other ranks, then srun's own
/// variables. MASTER_ADDR and MASTER_PORT alone say nothing: scripts export them for other programs.
/// Errors: InvalidArgument as read_launch_variables, for the variables that the decision needs.
LaunchKind launcher_kind(const Lookup& lookup);

/// Reads the variables of the launcher that launcher_kind names.
/// Errors: Error{InvalidArgument} naming the variable with its value, or which are set and which are missing.
///         Error{Unavailable} where a launcher promises other ranks and says too little to find them.
SINEW_API LaunchVariables read_launch_variables(const Lookup& lookup);

}  // namespace sinew
