#include "interface_checks.hpp"

#include <algorithm>
#include <map>

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

}  // namespace

std::vector<Finding> check_interfaces(Hosts hosts, std::span<const std::string> names) {
  std::vector<Finding> found;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    for (const HostAddress& mine : hosts[h]) {
      const std::vector<Neighbour> others = neighbours(hosts, mine);
      if (others.empty()) continue;
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
