#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe, or another launcher's variables in their stead.
/// sinew-run serves its store. Without sinew-run rank 0 does. On one host that is at a UNIX socket named by user,
/// MASTER_PORT and the job's name, and no TCP port is taken. On several hosts it is at MASTER_ADDR and MASTER_PORT, or
/// at one of the three ports that follow if another program listens at MASTER_PORT. If an agent of torchrun holds
/// MASTER_PORT, the first port is the next one.
/// Ranks of several hosts take the job's secret from SINEW_SECRET_FILE. Without such a file the protocol of the
/// launcher beneath carries the secret, or else MUNGE.
/// `world` counts the Worlds of this process from 0.
/// Errors: those of MASTER_ADDR's host show the variable as it was given.
Launch launch_from_master(const LaunchVariables& variables, int world, const Config& config);

}  // namespace sinew
