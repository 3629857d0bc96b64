#pragma once

#include <cstdint>
#include <vector>

namespace sinew::parallel {

class Inventory;

/// The most that is kept at a time between forward and backward passes, in micro-batches of one stage.
/// An activation lives from Forward, or Recompute where there is one, to Backward or WeightGradient. An input alone
/// lives from a Forward to its Recompute.
/// Source: counted as in Qi et al., arXiv 2401.10241: what InputGradient has left for WeightGradient is an activation.
struct LiveActivations {
  std::vector<std::int32_t> by_rank, by_stage;
  std::vector<std::int32_t> inputs_by_rank, inputs_by_stage;
};

/// Of a schedule that can run: it follows from the order on each rank alone.
LiveActivations live_activations(const Inventory& inventory);

}  // namespace sinew::parallel
