#pragma once

#include <sinew/collectives/cost_cache.hpp>
#include <sinew/collectives/world_state.hpp>
#include <sinew/core/exchange.hpp>

namespace sinew {

/// Replaces the default costs in world.facts by this machine's: from the cache file of rank 0, else measured once
/// between one pair of ranks of one host (at most 200 ms) and written there. Collective: two rounds.
void settle_costs(WorldState& world, const Exchange& exchange);

}  // namespace sinew
