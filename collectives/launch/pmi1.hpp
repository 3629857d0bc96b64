#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher that speaks PMI-1 (MPICH's mpirun). On one host its key space only names the meeting; on
/// several, rank 0's record goes through it. When the process exits, the launcher is told once, unless MPI was
/// initialised and tells it itself.
Launch launch_from_pmi1(const LaunchVariables& variables, const Config& config);

}  // namespace sinew
