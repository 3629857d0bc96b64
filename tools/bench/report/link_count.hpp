#pragma once

#include <functional>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/tools/bench/measurement/ranks.hpp>

#include "link_load.hpp"

namespace sinew::tools {

/// Makes one call. Rank 0 gets the bytes that this call put on the links of the virtual cluster, and those that the
/// simulator predicts for the same plan. All ranks call it together.
std::vector<LinkLoad> count_links(const VirtualWorld& virtual_world, World& world, Ranks& ranks, const Plan& plan,
                                  const std::function<void()>& call);

}  // namespace sinew::tools
