#pragma once

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>

namespace sinew {

/// A World on a virtual cluster has these options: its one transport, whatever the environment names.
/// Errors: Error{InvalidArgument} where the World has another number of ranks, or the caller wants other transports.
void require_virtual_options(const VirtualWorld& virtual_world, int ranks, Config& config);

/// What a rank there says of itself, in place of what is true of its thread.
void set_virtual_place(const VirtualWorld& virtual_world, int rank, LocalFacts& mine);

/// The rates of its cores or accelerators, which nobody measures.
void set_virtual_rates(const VirtualWorld& virtual_world, Facts& facts);

}  // namespace sinew
