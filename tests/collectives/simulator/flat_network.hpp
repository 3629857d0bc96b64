#pragma once

#include <cmath>

#include <gmock/gmock.h>

#include <sinew/topology/network.hpp>

namespace sinew::test {

inline constexpr double kLatency = 5e-6;
inline constexpr double kRate = 1e9;

/// Hosts of one rank each on one switch, which compute in no time: what closed forms are about.
inline Network flat(int ranks) {
  Network n{.name = "flat", .hosts = ranks};
  n.rates[static_cast<std::size_t>(Tier::NicOut)] = {kRate, kLatency / 2};
  n.rates[static_cast<std::size_t>(Tier::NicIn)] = {kRate, kLatency / 2};
  return n;
}

MATCHER_P2(IsWithin, part, expected, "") { return std::abs(arg - expected) <= part * expected; }

}  // namespace sinew::test
