#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/topology/catalog/named_networks.hpp>

#include "report.hpp"

namespace sinew::tools {

/// One size of cluster. `ways`: as simulate_ways() orders them.
struct ScalePoint {
  int hosts = 1;
  int ranks = 1;
  std::vector<SimulatedWay> ways;
  std::string rejected;  ///< empty: the call can be made there

  /// nullptr where it was not simulated.
  const SimulatedWay* simulated(std::string_view full_name) const;
  const SimulatedWay* fastest() const;
};

/// One call on ever more hosts.
struct Scale {
  std::string host;    ///< "dgx-h100"
  SimulatedCall call;  ///< on the fewest hosts
  Network network;     ///< of the fewest hosts
  std::vector<ScalePoint> points;

  /// Full names of all ways that were simulated anywhere, sorted.
  std::vector<std::string> names() const;
  /// Why a way is missing, or all are: "ring, 16384 to 100000 ranks: ...", with the reason of the first.
  std::vector<std::string> gaps() const;
  /// "8 to 64 ranks: direct", the fastest, with as many points in one as it holds.
  std::vector<std::string> winners() const;
};

/// "8..100000" as the numbers of hosts from so many ranks to so many: by factors of two, and the most.
/// Errors: Error{InvalidArgument} if it is no range, or holds no whole host.
std::vector<int> hosts_of_scale(const std::string& range, const HostModel& host);

/// What each point costs is limited: ways beyond that are rejected there, with the reason.
/// Errors: of `call` on the fewest hosts, and of simulate_ways().
Scale simulate_scale(const HostModel& host, const std::vector<int>& hosts,
                     const std::function<Network(int hosts)>& network,
                     const std::function<SimulatedCall(int ranks)>& call, const std::string& algorithm,
                     const std::function<void(const std::string&)>& begins);

}  // namespace sinew::tools
