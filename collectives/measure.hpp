#pragma once

#include <sinew/collectives/cost_cache.hpp>
#include <sinew/collectives/world_state.hpp>
#include <sinew/core/exchange.hpp>

namespace sinew {

/// Replaces the default costs in world.facts by this machine's: from the cache file of rank 0, else measured once
/// between one pair of ranks of one host and written there. The times of whole calls come from its SINEW_TUNE_FILE.
/// Collective: two rounds, whatever goes wrong. Cost:   of the measurement: at most 80 ms for each transport between
/// the two, 120 ms for each offload, and ten passes
///         over 8 MiB.
/// Errors: the same on all ranks: what is wrong with the tune file; what went wrong between the two, such as Timeout
/// naming who did not answer.
void settle_costs(WorldState& world, const Exchange& exchange);

}  // namespace sinew
