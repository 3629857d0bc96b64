#pragma once

#include <cstdint>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// The auxiliary loss that keeps experts equally loaded, for each sequence by itself. With T tokens, E experts, c_e
/// assignments to expert e, and p_te the probability of token t (its scores, scaled so that they add up to 1), it is
///
///     coefficient * T * E / (top_k T^2) * sum_e c_e sum_t p_te
///
/// If all experts are equally loaded, the loss is `coefficient` for each token. The loss is that of whole sequences. So
/// it does not depend on how sequences are cut over ranks and passes. Assignments are counted before any is dropped.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Cost:     an all_reduce of 2 * experts f64 for each sequence, over the ranks that share sequences. The backward pass
///           sends nothing.
/// Source:   Fedus et al., Switch Transformers, arXiv 2101.03961; by sequence: DeepSeek-V3, arXiv 2412.19437.
template <class T>
class SINEW_API BalanceLoss {
 public:
  /// group: the ranks that share sequences. Empty: this rank alone.
  /// Errors: InvalidArgument for a coefficient below 0.
  BalanceLoss(CallGroup group, const RouterShape& shape, double coefficient);

  struct Result {
    double loss = 0;  ///< of all sequences, the same on all ranks of the group
    /// [sequences, experts]: the gradient of the loss with respect to each token's probabilities
    std::vector<double> pull;
  };
  Result of(const Routed<T>& routed, const TokenPositions& where);

 private:
  CallGroup group_;
  std::int64_t experts_, top_k_;
  RouterScore score_;
  double coefficient_;
};

extern template class BalanceLoss<float>;
extern template class BalanceLoss<double>;

}  // namespace sinew::parallel
