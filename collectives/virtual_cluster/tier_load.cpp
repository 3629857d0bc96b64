#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/collectives/virtual_cluster/tier_load.hpp>

namespace sinew {

std::vector<TierLoad> tier_loads(const Network& network, std::span<const std::uint64_t> sent) {
  std::array<std::vector<std::uint64_t>, kTiers> bytes;
  for (std::size_t t = 0; t < kTiers; ++t)
    bytes[t].resize(static_cast<std::size_t>(network.count(static_cast<Tier>(t))));
  const int ranks = network.ranks();
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      const std::uint64_t between = sent[static_cast<std::size_t>(from * ranks + to)];
      if (between == 0 || from == to) continue;
      for (const NetworkLink& link : network.route(from, to))
        bytes[static_cast<std::size_t>(link.tier)][static_cast<std::size_t>(link.index)] += between;
    }
  }
  std::vector<TierLoad> loads;
  for (std::size_t t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    if (bytes[t].empty() || network.rate(tier).bytes_per_s == 0) continue;
    TierLoad& load = loads.emplace_back(TierLoad{tier, static_cast<int>(bytes[t].size()), 0, 0, {tier, 0}, 0});
    for (std::size_t l = 0; l < bytes[t].size(); ++l) {
      load.bytes += bytes[t][l];
      if (bytes[t][l] > 0) ++load.used;
      if (bytes[t][l] <= load.busiest_bytes) continue;
      load.busiest = {tier, static_cast<int>(l)};
      load.busiest_bytes = bytes[t][l];
    }
  }
  return loads;
}

std::optional<std::vector<TierLoad>> simulated_loads(const Plan& plan, const Network& network) {
  const Recipe* recipe = plan.recipe();
  if (recipe == nullptr || has_local_counts(plan.call().collective)) return std::nullopt;
  SimulationOptions options{.every_rank = true};
  // However a call is cut, the same bytes pass; but of coded elements, which are coded piece by piece.
  if (plan.call().codec == Codec::None) options.segmentation = Segmentation{};
  std::vector<TierLoad> loads;
  for (const Forecast::Load& l : simulate(*recipe, plan.call(), network, options).loads) {
    loads.push_back({l.tier, l.links, l.used, static_cast<std::uint64_t>(std::llround(l.bytes)), l.busiest,
                     static_cast<std::uint64_t>(std::llround(l.busiest_bytes))});
  }
  std::ranges::sort(loads, std::less<>(), &TierLoad::tier);
  return loads;
}

}  // namespace sinew
