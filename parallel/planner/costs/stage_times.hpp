#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// The time of one microbatch on one rank, by what it is spent on. Only the exposed time of communication counts,
/// during which the rank does not compute.
struct PassTime {
  Seconds compute = 0;
  Seconds again = 0;    ///< computing that recomputation repeats
  Seconds tensor = 0;   ///< exchanges of tensor-parallel ranks
  Seconds context = 0;  ///< exchanges of context-parallel ranks
  Seconds experts = 0;  ///< exchanges of expert-parallel ranks
  Seconds offload = 0;  ///< copies of activations to the store and back
  Seconds hidden = 0;   ///< the other copies, which run beside compute; not a part of the total

  Seconds total() const noexcept { return compute + again + tensor + context + experts + offload; }
  PassTime& operator+=(const PassTime& o) noexcept;
  PassTime operator*(double by) const noexcept {
    return {compute * by, again * by, tensor * by, context * by, experts * by, offload * by, hidden * by};
  }
};

/// The forward and the backward pass of a stage.
struct StagePasses {
  PassTime forward, backward;
  Seconds weights = 0;  ///< a part of backward.compute: gradients of weights, which may be computed later

  StagePasses& operator+=(const StagePasses& o) noexcept;
  StagePasses operator*(double by) const noexcept { return {forward * by, backward * by, weights * by}; }
};

/// The passes of each stage for one microbatch, on the tensor-parallel rank that has most to compute. The first stage
/// has the embeddings, and the last one the head.
/// Model:  products of matrices take their operations at efficiency * flops, or the time to read their weights if that
///         is longer. All other work takes the time to read or write the layer's activations twice. A backward pass
///         takes twice the compute of a forward pass. Attention counts half of its products, as with a causal mask.
///         Tensor-parallel exchanges are exposed in the forward pass. In the backward pass up to half of their time is
///         hidden by gradients of weights. Blocks of keys and values are sent while attention computes with the
///         previous blocks. Exchanges of tokens with experts are exposed.
///         The scan of Mamba-2 takes the products of HeadScan at efficiency * flops. That of Mamba is work element by
///         element. States that pass between context-parallel ranks are exposed.
///         Copies to the store and back run while the stage computes. If they take longer, a forward pass waits for the
///         rest. A backward pass waits for the rest and for the arrays of its first layer.
/// Source: Narayanan et al., arXiv 2104.04473; which exchanges run beside which computing: docs/parallel.md.
SINEW_API std::vector<StagePasses> stage_passes(const PlanQuestion& question, const JobConfig& config,
                                                CollectiveCosts& costs);

}  // namespace sinew::parallel
