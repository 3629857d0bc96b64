#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/network_costs.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>

namespace sinew::parallel {
namespace {

constexpr int kLeastPower = 6, kMostPower = 14;  // powers of four: 4 KiB and 256 MiB
constexpr std::size_t kTried = 2;

/// With these limits a simulation takes milliseconds; without them it may take minutes.
constexpr SimulationOptions kQuick{
    .exact_steps = 200'000, .most_steps = 2'000'000, .most_composed = 1, .most_executed = 60'000};

double bytes_at(int power) noexcept { return std::ldexp(1.0, 2 * power); }

/// A rough prediction from one link and from the costs that the algorithm states for itself. It is only used to choose
/// the algorithms that are worth simulating.
Seconds promised(const AlgorithmCost& cost, double bytes, const LinkCost& link, const CostModel& costs) {
  const double moved = std::max({cost.sent, cost.received, cost.serial}) * bytes;
  return cost.rounds * link.alone.seconds(0) + moved / link.bytes_per_s() +
         costs.local_s({.step = LocalStep::Reduce, .bytes = cost.reduced * bytes});
}

}  // namespace

CollectiveCosts::CollectiveCosts(Network network) : network_(std::move(network)) {}

CollectiveCosts::Spread CollectiveCosts::spread_of(const GroupShape& group) const noexcept {
  const int on_each = network_.ranks_per_host;
  if (group.stride >= on_each) return {1, group.ranks, std::max(group.stride / on_each, 1)};
  int on_host = std::min(group.ranks, on_each / group.stride);
  while (group.ranks % on_host != 0) --on_host;
  return {on_host, group.ranks / on_host, std::max(on_host * group.stride / on_each, 1)};
}

Network CollectiveCosts::part_of(const Spread& spread) const {
  Network part = network_;
  const double on_each = network_.ranks_per_host;
  part.hosts = spread.hosts;
  part.ranks_per_host = part.nics_per_host = spread.on_host;
  part.nic_by_place.clear();
  const double of_nics = std::min(1.0, network_.nics_per_host / on_each);
  const auto scale = [&part](Tier tier, double by) { part.rates[static_cast<std::size_t>(tier)].bytes_per_s *= by; };
  for (const Tier tier : {Tier::NicOut, Tier::NicIn}) scale(tier, of_nics);
  scale(Tier::Memory, spread.on_host / on_each);
  part.hosts_per_leaf = std::max(network_.hosts_per_leaf / spread.hosts_apart, 1);
  const double ranks_of_leaf =
      network_.form == NetworkForm::RailOptimised ? network_.hosts : network_.hosts_per_leaf * on_each;
  const double taken = network_.form == NetworkForm::RailOptimised ? spread.hosts : part.hosts_per_leaf;
  for (const Tier tier : {Tier::LeafUp, Tier::LeafDown}) scale(tier, taken * spread.on_host / ranks_of_leaf);
  return part;
}

Seconds CollectiveCosts::simulate_best(const CollectiveDesc& desc, const Network& network) {
  const int ranks = network.ranks();
  const auto bytes = static_cast<double>(desc.bytes(ranks));
  const NetworkCosts costs(network);
  const LinkCost farthest = costs.link(0, ranks - 1);
  std::vector<std::pair<Seconds, const Algorithm*>> candidates;
  for (const Algorithm& a : all_algorithms()) {
    if (a.collective != desc.collective || !a.supports(desc, ranks).ok) continue;
    if (desc.collective == Collective::AllToAll && a.name != "direct") continue;
    candidates.emplace_back(promised(a.cost(desc, ranks), bytes, farthest, costs), &a);
  }
  std::ranges::stable_sort(candidates, {}, [](const auto& c) { return c.first; });
  Seconds best = std::numeric_limits<Seconds>::infinity();
  for (std::size_t i = 0; i < std::min(candidates.size(), kTried); ++i) {
    try {
      best = std::min(best, simulate(Recipe(*candidates[i].second), desc, network, kQuick).seconds);
      ++simulated_;
    } catch (const Error& e) {  // the schedule has more steps than kQuick allows
      if (e.code() != Code::InvalidArgument) throw;
    }
  }
  return std::isfinite(best) ? best : candidates.at(0).first;
}

Seconds CollectiveCosts::at_power(Collective collective, const Spread& spread, int power) {
  const Key key{collective, spread.on_host, spread.hosts, spread.hosts_apart, power};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const Network part = part_of(spread);
  CollectiveDesc desc{.collective = collective, .dtype = DType::F32, .count = 1};
  const auto least = static_cast<double>(desc.bytes(part.ranks()));
  desc.count = std::max<std::size_t>(static_cast<std::size_t>(bytes_at(power) / least), 1);
  const Seconds found = simulate_best(desc, part);
  known_.emplace(key, found);
  return found;
}

Seconds CollectiveCosts::on_level(Collective collective, const Spread& spread, double bytes) {
  if (spread.on_host * spread.hosts == 1 || bytes <= 0) return 0;
  const double power = std::log2(std::max(bytes, 1.0)) / 2;
  if (power <= kLeastPower) return at_power(collective, spread, kLeastPower);
  if (power >= kMostPower) return at_power(collective, spread, kMostPower) * bytes / bytes_at(kMostPower);
  const int below = static_cast<int>(std::floor(power));
  const double first = bytes_at(below), share = (bytes - first) / (bytes_at(below + 1) - first);
  const Seconds from = at_power(collective, spread, below);
  return share <= 0 ? from : from + share * (at_power(collective, spread, below + 1) - from);
}

Seconds CollectiveCosts::seconds(Collective collective, const GroupShape& group, double bytes) {
  const Spread all = spread_of(group);
  if (collective == Collective::AllToAll || all.on_host == 1 || all.hosts == 1) return on_level(collective, all, bytes);
  const Spread inside{all.on_host, 1, 1}, across{1, all.hosts, all.hosts_apart};
  const double part = bytes / all.on_host;
  switch (collective) {
    case Collective::AllGather: return on_level(collective, across, part) + on_level(collective, inside, bytes);
    case Collective::ReduceScatter: return on_level(collective, inside, bytes) + on_level(collective, across, part);
    case Collective::AllReduce:
      return on_level(Collective::ReduceScatter, inside, bytes) + on_level(collective, across, part) +
             on_level(Collective::AllGather, inside, bytes);
    default: break;
  }
  throw Error(
      Code::InvalidArgument,
      fmt::format("cost of {}: expected all_reduce, all_gather, reduce_scatter or all_to_all", name_of(collective)));
}

/// The number of messages that share each resource while every rank sends one to the rank at distance `stride`.
Sharers CollectiveCosts::sharers_of_messages(int stride) const noexcept {
  const double on_host = network_.ranks_per_host;
  Sharers sharers;
  sharers.set(Resource::Memory, on_host).set(Resource::Nic, std::max(1.0, on_host / network_.nics_per_host));
  const int leaves = network_.count(Tier::LeafUp);
  if (leaves == 0) return sharers;
  // In a fat tree, a message between hosts of one leaf does not use the links to the spine.
  const double hosts_apart = std::ceil(stride / on_host);
  const double crossing =
      network_.form == NetworkForm::FatTree ? std::min(1.0, hosts_apart / network_.hosts_per_leaf) : 1;
  return sharers.set(Resource::Leaf, crossing * network_.ranks() / leaves);
}

Seconds CollectiveCosts::message(int stride, double bytes) const {
  if (stride <= 0 || stride >= network_.ranks()) return 0;
  const Transfer one{.from = 0, .to = stride, .bytes = bytes, .sharers = sharers_of_messages(stride)};
  return NetworkCosts(network_).transfer(one).seconds(bytes);
}

}  // namespace sinew::parallel
