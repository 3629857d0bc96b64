#pragma once

#include <string>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/topology/network.hpp>

namespace sinew::tools {

/// The stages of a plan in words, in the order in which they run. Empty: the plan has no stages (an offload, a world of
/// one).
std::vector<std::string> stages_of(const Plan& plan, const Network& network);

/// For each host the NICs whose ranks send to other hosts, ascending.
std::vector<std::vector<int>> nics_used(const Plan& plan, const Network& network);

}  // namespace sinew::tools
