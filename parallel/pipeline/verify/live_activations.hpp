#pragma once

#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {

/// The live activations of a schedule that can run. They depend only on the order of actions on each rank.
LiveActivations live_activations(const Inventory& inventory);

}  // namespace sinew::parallel
