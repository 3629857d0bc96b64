#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// The bytes that the links of a tier carried, in total and on the busiest link. It has the members of Forecast::Load
/// that do not depend on time.
struct TierLoad {
  Tier tier = Tier::RankOut;
  int links = 0;
  int used = 0;  ///< the number of links that carried bytes
  std::uint64_t bytes = 0;
  NetworkLink busiest{};  ///< the link with the most bytes, or the first of several
  std::uint64_t busiest_bytes = 0;
  friend bool operator==(const TierLoad&, const TierLoad&) = default;
};

/// Adds the bytes of messages to all links of their routes. `sent` has the bytes from each rank to each rank: row r is
/// World::sent_bytes() of rank r. The result has the tiers in order. Tiers are left out if their links limit nothing.
SINEW_API std::vector<TierLoad> tier_loads(const Network& network, std::span<const std::uint64_t> sent);

/// Returns the loads of one call from the simulator, or nullopt for messages and calls with local counts.
SINEW_API std::optional<std::vector<TierLoad>> simulated_loads(const Plan& plan, const Network& network);

}  // namespace sinew
