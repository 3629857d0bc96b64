#pragma once

#include <optional>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher that speaks PMI-1 (MPICH's mpirun), through the descriptor PMI_FD or at the address PMI_PORT.
/// On one host the launcher's key-value space only names the job. On several hosts rank 0 publishes its record there.
/// When the process exits, it tells the launcher once. With PMI_FD, MPI tells it instead if the program has initialised
/// MPI.
/// If `variables` are of another kind, the ranks have the numbers that these say. The result is then nullopt if PMI_FD
/// is no line to the launcher.
/// `world` counts the Worlds of this process from 0.
/// Errors: those of exchange_from_environment. Unavailable if ranks of several hosts have PMI_PORT without
///         SINEW_SECRET_FILE, since anybody may read from PMI_PORT.
std::optional<Launch> launch_from_pmi1(const LaunchVariables& variables, int world, const Config& config);

/// Returns true if the launcher has closed the line PMI_FD, and this process has not used it. PMI's protocol ends with
/// the first program of a task that leaves it, so an earlier program of this task has ended it.
bool pmi1_is_over(const LaunchVariables& variables);

}  // namespace sinew
