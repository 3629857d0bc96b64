#include "link_count.hpp"

#include <algorithm>

#include <sinew/collectives/virtual_cluster/tier_load.hpp>

namespace sinew::tools {
namespace {

LinkLoad::Bytes bytes_of(const TierLoad& load) { return {load.bytes, load.busiest_bytes, load.used}; }

/// From each rank to each.
std::vector<std::uint64_t> bytes_sent(World& world, Ranks& ranks, const std::function<void()>& call) {
  const std::vector<std::uint64_t> before = world.sent_bytes();
  call();
  const std::vector<std::uint64_t> after = world.sent_bytes();
  std::vector<double> mine;
  for (std::size_t r = 0; r < after.size(); ++r) mine.push_back(static_cast<double>(after[r] - before[r]));
  std::vector<std::uint64_t> sent;
  for (const double bytes : ranks.gather(mine)) sent.push_back(static_cast<std::uint64_t>(bytes));
  return sent;
}

}  // namespace

std::vector<LinkLoad> count_links(const VirtualWorld& virtual_world, World& world, Ranks& ranks, const Plan& plan,
                                  const std::function<void()>& call) {
  const Network& network = virtual_world.on.network;
  const std::vector<std::uint64_t> sent = bytes_sent(world, ranks, call);
  std::vector<LinkLoad> loads;
  if (ranks.rank() != 0) return loads;
  const auto simulated = simulated_loads(plan, network);
  for (const TierLoad& counted : tier_loads(network, sent)) {
    LinkLoad& load = loads.emplace_back(LinkLoad{std::string(name_of(counted.tier)), counted.links,
                                                 network.describe(counted.busiest), bytes_of(counted), std::nullopt});
    if (!simulated) continue;
    const auto same = std::ranges::find(*simulated, counted.tier, &TierLoad::tier);
    load.simulated = same == simulated->end() ? LinkLoad::Bytes{} : bytes_of(*same);
  }
  return loads;
}

}  // namespace sinew::tools
