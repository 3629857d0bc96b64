#pragma once

#include <optional>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/variables.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher with a PMIx server (Open MPI's mpirun, Slurm). Rank 0 puts its record there, and the others
/// ask for it. There is no fence, so that a rank that does not come is named by the store. The server keeps the records
/// of earlier programs of the same tasks: a rank whose record leads nowhere asks again until there is another one.
/// libpmix is loaded here and not before. If MPI has loaded one, it is used. Else the launcher's own (PMIX_PREFIX)
/// comes before the system's. MPI may be initialised at any time or never.
/// `variables` of another kind than Pmix give the ranks their numbers. Task 0 must be rank 0 then. The result is
/// nullopt if the server cannot be used or has another number of ranks.
/// `world` counts the Worlds of this process from 0.
/// Errors: Unavailable with the loader's or the server's reason.
std::optional<Launch> launch_from_pmix(const LaunchVariables& variables, int world, const Config& config);

}  // namespace sinew
