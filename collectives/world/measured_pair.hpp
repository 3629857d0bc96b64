#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/pairs_to_measure.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/wire.hpp>

namespace sinew {

/// Tells a pair of ranks what to measure on their host: everything, or a part in at most 200 ms.
struct HostScope {
  bool everything = true;
  bool offloads = false;             ///< of a part: the facts of the offloads
  std::vector<std::string> links{};  ///< of a part: the transports whose links are measured, until the time is up
};

/// Measures with the other rank of a pair, which calls the function at the same time. Returns the bytes that this rank
/// tells all others: the costs, or the reason of a failure. After a failure the endpoints between the two have ended.
/// Cost: within a host at most 80 ms for each transport and 250 ms for each offload, and ten passes over 8 MiB. Between
///       hosts at most 160 ms for each transport.
Bytes outcome_of_host(WorldState& world, const PairToMeasure& pair, const HostScope& scope);
Bytes outcome_between_hosts(WorldState& world, const PairToMeasure& pair);

/// True if this rank has waited for the other one in vain.
bool ends_measuring(std::span<const std::byte> outcome);

/// Returns the costs that the lower rank of the pair has measured.
/// Errors: the failure of the rank that could not measure. If the other rank has lost it since, that is not reported.
MeasuredCosts measured_by(std::span<const std::byte> of_a, std::span<const std::byte> of_b);

}  // namespace sinew
