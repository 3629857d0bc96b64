#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe, or another launcher's variables in their stead.
/// sinew-run serves its store; without it rank 0 does: on one host at a UNIX socket named by user, MASTER_PORT and the
/// job's name (no TCP port is taken), on several at MASTER_ADDR:MASTER_PORT, one port further if torchrun's agent has
/// that one. Errors: of MASTER_ADDR's host they show what was given.
Launch launch_from_master(const LaunchVariables& variables, const Config& config);

}  // namespace sinew
