#pragma once

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/exchange.hpp>

namespace sinew {

/// Replaces the default costs in world.facts by those of this machine and of its network.
/// - Costs within a host come from the cache file of rank 0. If they are not there, one pair of ranks of a host
///   measures them and they are written to the file.
/// - Doubtful costs (doubts_about()) are measured again, but at most once in ten minutes. Only a World that is the
///   first one in each of its processes does so. Facts::source names the doubts that are left.
/// - Costs between hosts are measured by each job, since a network changes and has other users. One pair of hosts of
///   each kind of link measures them.
/// - Times of whole calls come from rank 0's SINEW_TUNE_FILE.
/// - Times of calls on device memory come from the cache file of rank 0, where earlier jobs have kept them.
/// Errors: the same on all ranks. Either the fault of the tune file, or the failure of a pair that measures, such as
///         Timeout with the rank that did not answer.
/// Cost:   collective, with two rounds even after a failure. The time of outcome_of_host() once, and the time of
///         outcome_between_hosts() for each kind of link.
void settle_costs(WorldState& world, const Exchange& exchange);

}  // namespace sinew
