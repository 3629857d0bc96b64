#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher that speaks PMI-1 (MPICH's mpirun), through the descriptor PMI_FD or at the address PMI_PORT.
/// On one host the launcher's key-value space only names the job. On several hosts rank 0 publishes its record there.
/// When the process exits, it tells the launcher once. With PMI_FD, MPI tells it instead if the program has initialised
/// MPI.
/// Errors: those of exchange_from_environment. Unavailable if ranks of several hosts have PMI_PORT without
///         SINEW_SECRET_FILE, since anybody may read from PMI_PORT.
Launch launch_from_pmi1(const LaunchVariables& variables, const Config& config);

}  // namespace sinew
