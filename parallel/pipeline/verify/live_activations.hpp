#pragma once

#include <sinew/parallel/pipeline/schedule/inventory.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {

/// The live activations of a schedule that can run. They follow from the order on each rank alone.
LiveActivations live_activations(const Inventory& inventory);

}  // namespace sinew::parallel
