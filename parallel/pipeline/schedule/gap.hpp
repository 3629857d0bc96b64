#pragma once

#include <optional>

#include <sinew/parallel/pipeline/schedule/inventory.hpp>

namespace sinew::parallel {

/// The first action that a step of training lacks or has beside another one that does the same; with `messages` also
/// the first message that is missing or joins no two ranks, without that the first message there is.
std::optional<ScheduleFault> find_gap(const Inventory& inventory, bool messages);

}  // namespace sinew::parallel
