#pragma once

#include <string>
#include <vector>

#include <sinew/topology/virtual_cluster.hpp>

#include "ways.hpp"

namespace sinew::tools {

/// The question, in the words of the command line.
struct SimulatedCall {
  CollectiveDesc desc;
  std::uint64_t bytes = 0;  ///< of the larger buffer
};

/// "all_reduce of 64MiB"
std::string call_text(const SimulatedCall& call);
/// "all_reduce of 64MiB on dgx-h100x8: 64 ranks, one_switch".
std::string heading(const SimulatedCall& call, const Network& network);
/// The table. Above it are the figures of the cluster that are assumed.
std::string as_table(const SimulatedCall& call, const VirtualCluster& on, const std::vector<SimulatedWay>& ways);
/// One JSON object on one line.
std::string as_json(const SimulatedCall& call, const VirtualCluster& on, const std::vector<SimulatedWay>& ways);

}  // namespace sinew::tools
