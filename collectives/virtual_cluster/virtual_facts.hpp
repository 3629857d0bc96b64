#pragma once

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>

namespace sinew {

/// Sets the options of a World on a virtual cluster: it uses one transport, whatever the environment says.
/// Errors: Error{InvalidArgument} if the World has another number of ranks, or if the caller asks for other transports.
void require_virtual_options(const VirtualWorld& virtual_world, int ranks, Config& config);

/// Replaces the facts about this thread by those of a rank on the virtual cluster.
void set_virtual_place(const VirtualWorld& virtual_world, int rank, LocalFacts& mine);

/// Sets the rates of the virtual cluster's cores or accelerators, which are not measured.
void set_virtual_rates(const VirtualWorld& virtual_world, Facts& facts);

}  // namespace sinew
