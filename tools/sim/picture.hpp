#pragma once

#include <string>

#include "report.hpp"

namespace sinew::tools {

/// One candidate of a call as SVG: the cluster with its traffic, and the time line of the simulated ranks.
/// Shape: the candidate's forecast has a time line.
std::string picture_of(const SimulatedCall& call, const Network& network, const SimulatedWay& way);

}  // namespace sinew::tools
