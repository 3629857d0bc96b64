#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher that speaks PMI-1 (MPICH's mpirun), on the line PMI_FD or at PMI_PORT. On one host its key
/// space only names the job; on several, rank 0's record goes through it. When the process exits, the launcher is
/// told once. On PMI_FD, MPI tells it instead if the program has initialised MPI.
/// Errors: as exchange_from_environment; Unavailable where ranks of several hosts have PMI_PORT, which anybody may read
///         from, and no SINEW_SECRET_FILE.
Launch launch_from_pmi1(const LaunchVariables& variables, const Config& config);

}  // namespace sinew
