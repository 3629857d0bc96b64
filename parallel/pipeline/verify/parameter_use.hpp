#pragma once

#include <optional>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The first compute of a stage between a Reshard, or the begin, and the next Unshard, or the first of these that finds
/// parameters as it would leave them, or a stage that is not resharded at the end. Stages without any are whole always.
std::optional<ScheduleFault> find_misuse_of_parameters(const Inventory& inventory);

}  // namespace sinew::parallel
