#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// The time of one microbatch on one rank, by what it is spent on. Communication counts only as far as no computing
/// hides it.
struct PassTime {
  Seconds compute = 0;
  Seconds again = 0;    ///< computing that recomputation repeats
  Seconds tensor = 0;   ///< exchanges of tensor-parallel ranks
  Seconds context = 0;  ///< exchanges of context-parallel ranks
  Seconds experts = 0;  ///< of expert-parallel ones

  Seconds total() const noexcept { return compute + again + tensor + context + experts; }
  PassTime& operator+=(const PassTime& o) noexcept;
  PassTime operator*(double by) const noexcept {
    return {compute * by, again * by, tensor * by, context * by, experts * by};
  }
};

/// The forward and the backward pass of a stage.
struct StagePasses {
  PassTime forward, backward;
  Seconds weights = 0;  ///< a part of backward.compute: gradients of weights, which may be computed later

  StagePasses& operator+=(const StagePasses& o) noexcept;
  StagePasses operator*(double by) const noexcept { return {forward * by, backward * by, weights * by}; }
};

/// By stage, for one microbatch and the tensor-parallel rank that has most, with the embeddings and the head.
/// Model:  products of matrices take their operations at efficiency * flops, or the time to read their weights if that
///         is longer. All other work takes the time to read or write the layer's activations twice. A backward pass
///         takes two forward passes. Attention with a causal mask takes half of its products. Tensor-parallel exchanges
///         are waited for in the forward pass; in the backward pass half of them run beside gradients of weights.
///         Blocks of keys and values are sent while the previous ones are computed with. Tokens to and from experts are
///         waited for.
/// Source: Narayanan et al., arXiv 2104.04473; which exchanges run beside which computing: docs/parallel.md.
SINEW_API std::vector<StagePasses> stage_passes(const PlanQuestion& question, const JobConfig& config,
                                                CollectiveCosts& costs);

}  // namespace sinew::parallel
