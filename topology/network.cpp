#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <sinew/topology/network.hpp>

namespace sinew {

std::string_view name_of(Tier tier) noexcept {
  constexpr std::string_view kNames[kTiers] = {"rank out", "rank in", "memory",  "pci out",  "pci in",
                                               "nic out",  "nic in",  "leaf up", "leaf down"};
  return kNames[static_cast<std::size_t>(tier)];
}

std::string_view name_of(NetworkForm form) noexcept {
  switch (form) {
    case NetworkForm::OneSwitch: return "one_switch";
    case NetworkForm::FatTree: return "fat_tree";
    case NetworkForm::RailOptimised: return "rail_optimised";
  }
  return "";
}

int Network::ranks() const noexcept {
  return ranks_on.empty() ? hosts * ranks_per_host : std::accumulate(ranks_on.begin(), ranks_on.end(), 0);
}

Network::Location Network::location_of(int rank) const noexcept {
  Location location{0, rank};
  for (const int here : ranks_on) {
    if (location.place < here) break;
    location.place -= here;
    ++location.host;
  }
  return location;
}

int Network::nic_of_place(int place) const noexcept {
  if (!nic_by_place.empty()) return nic_by_place[static_cast<std::size_t>(place)];
  return nics_per_host >= ranks_per_host ? place : place * nics_per_host / ranks_per_host;
}

int Network::leaf_of(int host, int nic) const noexcept {
  switch (form) {
    case NetworkForm::OneSwitch: return 0;
    case NetworkForm::FatTree: return host / hosts_per_leaf;
    case NetworkForm::RailOptimised: return nic;
  }
  return 0;
}

int Network::count(Tier tier) const noexcept {
  switch (tier) {
    case Tier::RankOut:
    case Tier::RankIn:
    case Tier::PciOut:
    case Tier::PciIn: return ranks();
    case Tier::Memory: return hosts;
    case Tier::NicOut:
    case Tier::NicIn: return hosts * nics_per_host;
    case Tier::LeafUp:
    case Tier::LeafDown:
      if (form == NetworkForm::OneSwitch) return 0;
      return form == NetworkForm::FatTree ? (hosts + hosts_per_leaf - 1) / hosts_per_leaf : nics_per_host;
  }
  return 0;
}

Route Network::route(int from, int to) const noexcept {
  const int a = host_of(from), b = host_of(to);
  if (a == b) return {{Tier::RankOut, from}, {Tier::Memory, a}, {Tier::RankIn, to}};
  const int out = nic_of_place(place_of(from)), in = nic_of_place(place_of(to));
  Route links{{Tier::PciOut, from}, {Tier::NicOut, a * nics_per_host + out}};
  if (const int up = leaf_of(a, out), down = leaf_of(b, in); up != down) {
    links.push_back({Tier::LeafUp, up});
    links.push_back({Tier::LeafDown, down});
  }
  links.push_back({Tier::NicIn, b * nics_per_host + in});
  links.push_back({Tier::PciIn, to});
  return links;
}

std::string Network::describe(const NetworkLink& link) const {
  switch (link.tier) {
    case Tier::RankOut:
    case Tier::RankIn:
    case Tier::PciOut:
    case Tier::PciIn: return fmt::format("{} of rank {}", name_of(link.tier), link.index);
    case Tier::Memory: return fmt::format("memory of host {}", link.index);
    case Tier::NicOut:
    case Tier::NicIn:
      return fmt::format("{} {} of host {}", name_of(link.tier), link.index % nics_per_host,
                         link.index / nics_per_host);
    case Tier::LeafUp:
    case Tier::LeafDown: return fmt::format("{} {}", name_of(link.tier), link.index);
  }
  return {};
}

}  // namespace sinew
