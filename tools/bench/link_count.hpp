#pragma once

#include <functional>
#include <vector>

#include <sinew/collectives/plan.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>

#include "link_load.hpp"
#include "ranks.hpp"

namespace sinew::tools {

/// Makes one call and tells rank 0 what it put on the links of the virtual cluster, beside what the simulator says
/// of the same plan. All ranks call it together.
std::vector<LinkLoad> count_links(const VirtualWorld& virtual_world, World& world, Ranks& ranks, const Plan& plan,
                                  const std::function<void()>& call);

}  // namespace sinew::tools
