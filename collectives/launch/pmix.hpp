#pragma once

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>

namespace sinew {

/// The job of a launcher with a PMIx server (Open MPI's mpirun, Slurm). Rank 0 puts its record there, the others ask
/// for it; no fence, so that a rank that does not come is named by the store. libpmix is loaded here and not before;
/// MPI may be initialised earlier, later or never. Errors: Unavailable with the loader's or the server's reason.
Launch launch_from_pmix(const Config& config);

}  // namespace sinew
