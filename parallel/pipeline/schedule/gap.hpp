#pragma once

#include <optional>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// Finds the first action that a training step lacks, or that does the same as another action. With `messages`, it also
/// finds a message that is missing, or that does not join two ranks. Without `messages`, every message is a fault.
/// nullopt: there is no fault.
std::optional<ScheduleFault> find_gap(const Inventory& inventory, bool messages);

}  // namespace sinew::parallel
