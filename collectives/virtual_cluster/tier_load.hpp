#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/topology/network.hpp>

namespace sinew {

/// What the links of a tier carried, all together and the busiest: of Forecast::Load what does not depend on time.
struct TierLoad {
  Tier tier = Tier::RankOut;
  int links = 0;
  int used = 0;  ///< those that carried anything
  std::uint64_t bytes = 0;
  NetworkLink busiest{};  ///< the first of those with most
  std::uint64_t busiest_bytes = 0;
  friend bool operator==(const TierLoad&, const TierLoad&) = default;
};

/// Adds messages to all links of their routes. `sent`: bytes from each rank to each, row by row, as
/// World::sent_bytes() of every rank. Tiers whose links never limit are left out, the others in the order of Tier.
SINEW_API std::vector<TierLoad> tier_loads(const Network& network, std::span<const std::uint64_t> sent);

/// The same of one call, by the simulator. nullopt: it knows none for this plan (messages, counts that are local).
SINEW_API std::optional<std::vector<TierLoad>> simulated_loads(const Plan& plan, const Network& network);

}  // namespace sinew
