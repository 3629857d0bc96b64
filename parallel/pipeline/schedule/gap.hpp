#pragma once

#include <optional>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The first action that a training step lacks, or that does the same as another one. With `messages`, also the first
/// message that is missing or that does not join two ranks. Without `messages`, also the first message that there is.
std::optional<ScheduleFault> find_gap(const Inventory& inventory, bool messages);

}  // namespace sinew::parallel
