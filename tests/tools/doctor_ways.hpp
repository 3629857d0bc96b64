#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/tools/info/doctor/links/link_probe.hpp>

namespace sinew::doctor {

/// "10.0.0.1" or "fd00::1" on an interface that works.
inline HostAddress address(const std::string& interface, const std::string& text, unsigned prefix = 24,
                           std::uint32_t mtu = 1500) {
  return {SocketAddress::parse(text.find(':') == std::string::npos ? text + ":0" : "[" + text + "]:0"), prefix,
          interface, mtu};
}

/// "n0", "n1", ...
inline std::vector<std::string> host_names(int hosts) {
  std::vector<std::string> names;
  for (int h = 0; h < hosts; ++h) names.push_back(fmt::format("n{}", h));
  return names;
}

/// One direction between two hosts that carries, in network `net`: host h has 10.NET.0.(h+1) on ethNET.
inline LinkResult way(int from, int to, int net = 0) {
  const auto of = [net](int host) {
    return address(fmt::format("eth{}", net), fmt::format("10.{}.0.{}", net, host + 1));
  };
  return {.from_host = from,
          .to_host = to,
          .link = {of(from), of(to)},
          .state = LinkState::Carries,
          .round_trip_s = 50e-6,
          .bytes_per_s = 1e8};
}

/// All directions between so many hosts, in each of so many networks.
inline std::vector<LinkResult> mesh(int hosts, int nets = 1) {
  std::vector<LinkResult> all;
  for (int net = 0; net < nets; ++net) {
    for (int a = 0; a < hosts; ++a) {
      for (int b = 0; b < hosts; ++b) {
        if (a != b) all.push_back(way(a, b, net));
      }
    }
  }
  return all;
}

/// As a probe finds it when connecting fails with `error`.
inline void break_way(LinkResult& way, int error, const std::string& why) {
  way.state = LinkState::Unreachable;
  way.error = error;
  way.why = why;
}

}  // namespace sinew::doctor
