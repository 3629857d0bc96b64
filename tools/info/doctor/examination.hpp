#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/config.hpp>

#include "finding.hpp"
#include "link_probe.hpp"

namespace sinew::doctor {

/// Memory of a rank that a job says nothing of: its code, its libraries' and transports' buffers, and small ones of its
/// own.
inline constexpr std::uint64_t kRankBytes = std::uint64_t{64} << 20;

struct Diagnosis {
  int ranks = 1;
  std::vector<std::string> hosts;
  std::vector<Finding> findings;  ///< the worst first
  std::vector<LinkResult> links;
};

/// Called before each round of probes, with its number and how many there are.
using ShowRound = std::function<void(int round, int rounds)>;

/// Examines the hosts of a job; all its ranks call it together, and all get the same. The lowest rank of each host
/// looks and probes, one pair of hosts at a time on each, so that no two probes share an interface. Errors:
/// Error{Timeout} naming ranks that did not come. Cost: two rounds of the exchange and half a second for each other
/// host; more where links do not work.
Diagnosis examine(const Launch& job, const Config& config, std::uint64_t rank_bytes, const ShowRound& show);

}  // namespace sinew::doctor
