#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/topology/catalog/named_networks.hpp>

#include "report.hpp"

namespace sinew::tools {

/// One size of cluster. `ways`: in the order of simulate_ways().
struct ScalePoint {
  int hosts = 1;
  int ranks = 1;
  std::vector<SimulatedWay> ways;
  std::string rejected;  ///< empty: the call can be made there

  /// nullptr where that candidate was not simulated.
  const SimulatedWay* simulated(std::string_view full_name) const;
  const SimulatedWay* fastest() const;
};

/// One call, simulated on ever more hosts.
struct Scale {
  std::string host;    ///< "dgx-h100"
  SimulatedCall call;  ///< on the fewest hosts
  Network network;     ///< of the fewest hosts
  std::vector<ScalePoint> points;

  /// The full names of all candidates that were simulated on any size, sorted.
  std::vector<std::string> names() const;
  /// Why candidates are missing: "ring, 16384 to 100000 ranks: ...", with the reason of the first size.
  std::vector<std::string> gaps() const;
  /// "8 to 64 ranks: direct": the fastest candidate. Neighbouring sizes with the same fastest candidate are one line.
  std::vector<std::string> winners() const;
};

/// The numbers of hosts for a range of ranks such as "8..100000". The first is the smallest that fits the range, the
/// next ones double, and the last is the largest that fits.
/// Errors: Error{InvalidArgument} if the text is no range, or if no whole host has so few ranks.
std::vector<int> hosts_of_scale(const std::string& range, const HostModel& host);

/// Simulates the call on each number of hosts. The work for each size is limited: a candidate beyond the limit is
/// rejected with that reason.
/// Errors: those of `call` on the fewest hosts, and those of simulate_ways().
Scale simulate_scale(const HostModel& host, const std::vector<int>& hosts,
                     const std::function<Network(int hosts)>& network,
                     const std::function<SimulatedCall(int ranks)>& call, const std::string& algorithm,
                     const ShowBegin& begins);

}  // namespace sinew::tools
