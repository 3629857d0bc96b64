#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/collectives/simulator/forecast.hpp>
#include <sinew/collectives/virtual_cluster/tier_load.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>

namespace sinew::tools {

/// The plan that a job on a cluster would choose for a call. The cluster need not be here.
struct VirtualPlan {
  Plan plan;
  std::vector<std::string> stages;          ///< stages_of() the plan
  std::vector<std::vector<int>> nics_used;  ///< by host: the NICs that send to other hosts
  std::vector<TierLoad> loads;              ///< simulated, of one call; may be empty
  std::optional<Forecast> simulated;        ///< the simulated time of the call; nullopt if there are no loads
};

/// Plans a call on a virtual cluster. `describe`: gives the call for a number of ranks.
/// Lifetime: the counts of the call outlive this function.
VirtualPlan plan_on(const std::shared_ptr<const VirtualWorld>& virtual_world,
                    const std::function<CollectiveDesc(int ranks)>& describe);

std::string to_text(const VirtualPlan& plan, const VirtualCluster& on);
std::string to_json(const VirtualPlan& plan, const VirtualCluster& on);

}  // namespace sinew::tools
