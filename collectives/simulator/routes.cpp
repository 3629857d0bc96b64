#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include <sinew/collectives/simulator/routes.hpp>

namespace sinew {
namespace {

std::vector<double> rates_of_links(const Network& network) {
  std::vector<double> rates;
  for (std::size_t t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    rates.insert(rates.end(), static_cast<std::size_t>(network.count(tier)), network.rate(tier).bytes_per_s);
  }
  return rates;
}

constexpr std::uint64_t both(int a, int b) {
  return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint32_t>(b);
}

}  // namespace

Routes::Routes(const Network& network, const Symmetry& symmetry)
    : network_(network), symmetry_(symmetry), traffic_(rates_of_links(network)) {
  int next = 0;
  for (std::size_t t = 0; t < kTiers; ++t) {
    first_id_[t] = next;
    next += network.count(static_cast<Tier>(t));
  }
}

Routes::Way Routes::way(int kind, int to) {
  const std::uint64_t key = both(kind, to);
  const auto known = ways_.find(key);
  return known != ways_.end() ? known->second : ways_.emplace(key, find(symmetry_.first_of(kind), to)).first->second;
}

/// Symmetry::crossing(), which in a fat tree looks at all hosts.
double Routes::crossing(int from, int to) {
  if (network_.form != NetworkForm::FatTree) return symmetry_.crossing(from, to);
  const auto [known, is_new] = crossing_.try_emplace(both(network_.host_of(from), network_.host_of(to)));
  if (is_new) known->second = symmetry_.crossing(from, to);
  return known->second;
}

/// Whatever passes between a rank and its NIC passes the NIC: where that is no faster, it limits all of it.
bool Routes::may_limit(Tier tier) const noexcept {
  if (tier != Tier::PciOut && tier != Tier::PciIn) return true;
  const double nic = network_.rate(tier == Tier::PciOut ? Tier::NicOut : Tier::NicIn).bytes_per_s;
  return nic == 0 || network_.rate(tier).bytes_per_s < nic;
}

int Routes::path_of(const std::vector<Traffic::Use>& all, const std::vector<Traffic::Use>& that_may_limit) {
  std::uint64_t hash = 0;
  for (const Traffic::Use& use : all)
    hash = mix(mix(hash, static_cast<std::uint64_t>(use.link)), std::bit_cast<std::uint64_t>(use.times));
  const auto [first, last] = path_of_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& p) { return uses_[std::size_t(p.second)] == all; });
  if (same != last) return same->second;
  const int added = traffic_.add_path(that_may_limit);
  path_of_.emplace(hash, added);
  uses_.push_back(all);
  carried_.push_back(0);
  return added;
}

Routes::Way Routes::find(int from, int to) {
  Way way;
  std::vector<Traffic::Use> uses, that_may_limit;
  const auto pass = [&](const NetworkLink& link, double part) {
    const LinkRate& rate = network_.rate(link.tier);
    way.latency += part * rate.latency_s;
    if (rate.bytes_per_s == 0) return;
    uses.push_back({id_of(symmetry_.first_like(link)), symmetry_.alike_to(from) * part / symmetry_.links_like(link)});
    if (may_limit(link.tier)) that_may_limit.push_back(uses.back());
  };
  for (const NetworkLink& link : network_.route(from, to)) {
    if (link.tier != Tier::LeafUp && link.tier != Tier::LeafDown) pass(link, 1);
  }
  const int a = network_.host_of(from), b = network_.host_of(to);
  if (const double part = a == b ? 0 : crossing(from, to); part > 0) {
    pass({Tier::LeafUp, network_.leaf_of(a, network_.nic_of_place(network_.place_of(from)))}, part);
    pass({Tier::LeafDown, network_.leaf_of(b, network_.nic_of_place(network_.place_of(to)))}, part);
  }
  if (!uses.empty()) way.path = path_of(uses, that_may_limit);
  return way;
}

std::vector<double> Routes::carried_by_links() const {
  std::vector<double> bytes(static_cast<std::size_t>(first_id_.back() + network_.count(static_cast<Tier>(kTiers - 1))));
  for (std::size_t path = 0; path < uses_.size(); ++path) {
    for (const Traffic::Use& use : uses_[path]) bytes[static_cast<std::size_t>(use.link)] += carried_[path] * use.times;
  }
  return bytes;
}

std::array<std::vector<double>, kTiers> Routes::link_bytes(double factor) const {
  const std::vector<double> carried = carried_by_links();
  std::array<std::vector<double>, kTiers> bytes;
  for (std::size_t t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    if (network_.rate(tier).bytes_per_s == 0) continue;
    for (int l = 0; l < network_.count(tier); ++l)
      bytes[t].push_back(factor * carried[static_cast<std::size_t>(id_of(symmetry_.first_like({tier, l})))]);
  }
  return bytes;
}

std::vector<Forecast::Load> Routes::loads(double factor, Seconds seconds) const {
  const std::vector<double> carried = carried_by_links();
  std::vector<Forecast::Load> loads;
  for (std::size_t t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    const double rate = network_.rate(tier).bytes_per_s;
    if (rate == 0 || network_.count(tier) == 0) continue;
    Forecast::Load load{.tier = tier, .links = network_.count(tier), .busiest = {tier, 0}};
    for (int l = 0; l < load.links; ++l) {
      const NetworkLink link{tier, l};
      if (symmetry_.first_like(link) != link) continue;
      const double bytes = factor * carried[static_cast<std::size_t>(id_of(link))];
      load.bytes += bytes * symmetry_.links_like(link);
      if (bytes > 0) load.used += symmetry_.links_like(link);
      if (bytes <= load.busiest_bytes) continue;
      load.busiest = link;
      load.busiest_bytes = bytes;
    }
    load.utilisation = seconds > 0 ? load.busiest_bytes / rate / seconds : 0;
    loads.push_back(load);
  }
  std::ranges::stable_sort(loads, std::greater<>(), &Forecast::Load::utilisation);
  return loads;
}

}  // namespace sinew
