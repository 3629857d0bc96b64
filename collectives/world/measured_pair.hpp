#pragma once

#include <cstddef>
#include <span>

#include <sinew/collectives/selection/cost_cache.hpp>
#include <sinew/collectives/selection/pairs_to_measure.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/wire.hpp>

namespace sinew {

/// What a rank of the pair tells all others: what both have measured, or why this one could not. Both ranks of the pair
/// call it at the same time; where that fails, the endpoints between the two have ended.
/// Cost: of a host, at most 80 ms for each transport between the two, 250 ms for each offload, and ten passes over
///       8 MiB; between hosts 160 ms for each transport.
Bytes outcome_of_host(WorldState& world, const PairToMeasure& pair);
Bytes outcome_between_hosts(WorldState& world, const PairToMeasure& pair);

/// Has this rank waited for the other in vain?
bool ends_measuring(std::span<const std::byte> outcome);

/// What the lower of the pair has measured. Throws where one of them could not: its reason, not that the other has lost
/// it since.
MeasuredCosts measured_by(std::span<const std::byte> of_a, std::span<const std::byte> of_b);

}  // namespace sinew
