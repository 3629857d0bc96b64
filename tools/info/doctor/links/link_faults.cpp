#include "link_faults.hpp"

#include <cerrno>

#include <fmt/format.h>

namespace sinew::doctor {

std::string fault_of(const LinkResult& way) {
  if (way.state == LinkState::SmallOnly) {
    const std::string shorter = way.passing_bytes > 0 ? fmt::format("those of {} arrive", way.passing_bytes)
                                                      : std::string("and so are shorter ones");
    return fmt::format("short messages pass, long ones do not: packets of the MTU ({}) are lost, {}",
                       way.link.from.mtu_bytes, shorter);
  }
  if (way.error == ETIMEDOUT) return "no answer";
  return way.error != 0 ? way.why : fmt::format("answers, but is not the job's: {}", way.why);
}

std::string cure_of(const LinkResult& way) {
  const std::string look =
      fmt::format("`ip route get {} from {}` shows the way that is taken", way.link.to.ip(), way.link.from.ip());
  if (way.state == LinkState::SmallOnly) {
    if (way.passing_bytes == 0) return "look at the errors of the interfaces and switch ports: ip -s link, ethtool -S";
    return fmt::format("ip link set {} mtu {} on both sides, or an MTU of {} on every switch between them",
                       way.link.from.interface, way.passing_bytes, way.link.from.mtu_bytes);
  }
  if (way.error == ECONNREFUSED)
    return "a firewall refuses it: allow TCP between the hosts, on the ports of SINEW_PORTS if that is set";
  if (way.error == ETIMEDOUT) {
    return fmt::format("a firewall, a route that leads nowhere, a cable or a switch port, here or there; {}", look);
  }
  if (way.error != 0) return fmt::format("a route leads nowhere; {}", look);
  return fmt::format(
      "another process or machine has the address: give each host its own, or leave {} out with SINEW_INTERFACE",
      way.link.from.interface);
}

bool fails_at_once(const LinkResult& way) noexcept { return way.error != 0 && way.error != ETIMEDOUT; }

}  // namespace sinew::doctor
