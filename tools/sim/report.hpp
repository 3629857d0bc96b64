#pragma once

#include <string>
#include <vector>

#include "ways.hpp"

namespace sinew::tools {

/// What was asked, in the words of the command line.
struct SimulatedCall {
  CollectiveDesc desc;
  std::uint64_t bytes = 0;  ///< of the larger buffer
};

std::string as_table(const SimulatedCall& call, const Network& network, const std::vector<SimulatedWay>& ways);
/// One JSON object in one line.
std::string as_json(const SimulatedCall& call, const Network& network, const std::vector<SimulatedWay>& ways);

}  // namespace sinew::tools
