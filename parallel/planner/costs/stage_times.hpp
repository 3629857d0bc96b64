#pragma once

#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/planner/costs/collective_costs.hpp>
#include <sinew/parallel/planner/costs/question.hpp>

namespace sinew::parallel {

/// What one micro-batch takes on one rank, by what it is spent on; of communication what no computing hides.
struct PassTime {
  Seconds compute = 0;
  Seconds again = 0;    ///< computing that recomputation repeats
  Seconds tensor = 0;   ///< exchanges of tensor-parallel ranks
  Seconds context = 0;  ///< of context-parallel ones
  Seconds experts = 0;  ///< of expert-parallel ones

  Seconds total() const noexcept { return compute + again + tensor + context + experts; }
  PassTime& operator+=(const PassTime& o) noexcept;
  PassTime operator*(double by) const noexcept {
    return {compute * by, again * by, tensor * by, context * by, experts * by};
  }
};

struct StagePasses {
  PassTime forward, backward;
  Seconds weights = 0;  ///< of backward.compute: gradients of weights, which may be made later

  StagePasses& operator+=(const StagePasses& o) noexcept;
  StagePasses operator*(double by) const noexcept { return {forward * by, backward * by, weights * by}; }
};

/// By stage, with the embeddings and the head, of the tensor-parallel rank that has most, in a micro-batch.
/// Model:  products of matrices take their operations at efficiency * flops, or reading their weights where that is
///         longer; all else twice the bytes that a layer's activations have, by the memory's rate. A backward pass is
///         two forward passes. Attention of a causal mask is half of its products. Tensor-parallel exchanges are waited
///         for forward; backward half of them go on beside gradients of weights. Blocks of keys and values travel while
///         the last ones are computed with. Tokens to and from experts are waited for.
/// Source: Narayanan et al., arXiv 2104.04473; what goes beside what: docs/parallel.md.
SINEW_API std::vector<StagePasses> stage_passes(const PlanQuestion& question, const JobConfig& config,
                                                CollectiveCosts& costs);

}  // namespace sinew::parallel
