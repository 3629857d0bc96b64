#pragma once

#include <optional>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The first action that uses parameters wrongly: a compute of a stage whose parameters are sharded, an Unshard or
/// Reshard that changes nothing, or a stage that is not resharded at the end. The parameters of a stage without such
/// actions are always whole.
std::optional<ScheduleFault> find_misuse_of_parameters(const Inventory& inventory);

}  // namespace sinew::parallel
