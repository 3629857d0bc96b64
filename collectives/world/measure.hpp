#pragma once

#include <sinew/collectives/selection/cost_cache.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/exchange.hpp>

namespace sinew {

/// Replaces the default costs in world.facts by those of this machine and of its network. Within hosts: from the cache
/// file of rank 0, else measured once between one pair of ranks of one host and written there. Between hosts: measured
/// by each job, for a network changes and has other users, between one pair of hosts of each kind of links. The times
/// of whole calls come from rank 0's SINEW_TUNE_FILE. Collective: two rounds, whatever goes wrong. Cost: that of
/// outcome_of_host once, and that of outcome_between_hosts for each kind. Errors: the same on all ranks: what is wrong
/// with the tune file; what went wrong between two that measure, such as Timeout naming who did not answer.
void settle_costs(WorldState& world, const Exchange& exchange);

}  // namespace sinew
