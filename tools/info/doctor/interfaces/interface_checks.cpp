#include "interface_checks.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace sinew::doctor {
namespace {

using Hosts = std::span<const std::vector<HostAddress>>;

/// An address of another host in the same network, and whose it is.
struct Neighbour {
  std::size_t host = 0;
  const HostAddress* address = nullptr;
};

std::vector<Neighbour> neighbours(Hosts hosts, const HostAddress& of) {
  std::vector<Neighbour> all;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (const HostAddress& a : hosts[h]) {
      if (share_network(of, a)) all.push_back({h, &a});
    }
  }
  return all;
}

/// What most of them have, itself among them; the larger where two are as frequent. 0: unknown.
std::uint32_t usual_mtu(const HostAddress& of, std::span<const Neighbour> others) {
  std::map<std::uint32_t, int> votes{{of.mtu_bytes, 1}};
  for (const Neighbour& n : others) votes[n.address->mtu_bytes] += n.address->works ? 1 : 0;
  const auto most = std::ranges::max_element(
      votes, [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); });
  return most->first;
}

/// The hosts that have an address in its network.
std::set<std::size_t> members_of(std::size_t host, std::span<const Neighbour> others) {
  std::set<std::size_t> members{host};
  for (const Neighbour& n : others) members.insert(n.host);
  return members;
}

/// Is there another network, of another kind of address, that joins the host to the same interface?
bool reaches(const std::vector<HostAddress>& host, const std::vector<HostAddress>& other,
             const std::string& interface) {
  return std::ranges::any_of(other, [&](const HostAddress& theirs) {
    return theirs.interface == interface &&
           std::ranges::any_of(host, [&](const HostAddress& mine) { return share_network(mine, theirs); });
  });
}

/// Hosts that are not in a network that most share: said once for each network, of its first address.
void add_missing(Hosts hosts, std::span<const std::string> names, std::size_t host, const HostAddress& first,
                 std::span<const Neighbour> others, std::vector<Finding>& found) {
  const std::set<std::size_t> members = members_of(host, others);
  const auto of_network = [&](const HostAddress& a) { return &a == &first || share_network(a, first); };
  const bool is_first = *members.begin() == host && &*std::ranges::find_if(hosts[host], of_network) == &first;
  if (!is_first || 2 * members.size() <= hosts.size()) return;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (members.contains(h) || reaches(hosts[h], hosts[host], first.interface)) continue;
    found.push_back({Severity::Warns,
                     "interface",
                     fmt::format("no address in the network of {} of {}, which {} hosts share", first.text(),
                                 names[host], members.size()),
                     fmt::format("ip addr add ADDRESS/{} dev DEVICE, if it has an interface there", first.prefix_bits),
                     {names[h]}});
  }
}

}  // namespace

std::vector<Finding> check_interfaces(Hosts hosts, std::span<const std::string> names) {
  std::vector<Finding> found;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (const HostAddress& mine : hosts[h]) {
      const std::vector<Neighbour> others = neighbours(hosts, mine);
      if (others.empty()) continue;
      add_missing(hosts, names, h, mine, others, found);
      const std::uint32_t usual = usual_mtu(mine, others);
      if (!mine.works) {
        found.push_back({Severity::Warns,
                         "interface",
                         fmt::format("{} is down or has no link; {} has {} in the same network", mine.text(),
                                     names[others.front().host], others.front().address->text()),
                         fmt::format("ip link set {} up, and look at its cable and switch port", mine.interface),
                         {names[h]}});
      } else if (usual != 0 && mine.mtu_bytes != 0 && mine.mtu_bytes != usual) {
        found.push_back(
            {Severity::Warns,
             "interface",
             fmt::format("{} has an MTU of {}, others in its network have {}", mine.text(), mine.mtu_bytes, usual),
             fmt::format("ip link set {} mtu {}, if all switches between them carry that", mine.interface, usual),
             {names[h]}});
      }
    }
  }
  return found;
}

}  // namespace sinew::doctor
