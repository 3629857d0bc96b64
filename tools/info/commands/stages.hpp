#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/topology/network.hpp>

namespace sinew::tools {

/// What a plan's programs do one after the other, in words. Empty: it has none (an offload, a world of one).
std::vector<std::string> stages_of(const Plan& plan, const Network& network);

/// By host the NICs whose ranks send to other hosts, ascending.
std::vector<std::vector<int>> nics_used(const Plan& plan, const Network& network);

}  // namespace sinew::tools
