#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/expert/balance_loss.hpp>
#include <sinew/parallel/expert/routed_tokens.hpp>
#include <sinew/parallel/expert/score_shares.hpp>

namespace sinew::parallel {

template <class T>
BalanceLoss<T>::BalanceLoss(CallGroup group, const RouterShape& shape, double coefficient)
    : group_(group), experts_(shape.experts), top_k_(shape.top_k), score_(shape.score), coefficient_(coefficient) {
  if (!(coefficient >= 0) || !std::isfinite(coefficient))
    throw Error(Code::InvalidArgument,
                fmt::format("balance loss of '{}': coefficient {}, expected 0 or more", shape.name, coefficient));
}

template <class T>
typename BalanceLoss<T>::Result BalanceLoss<T>::of(const Routed<T>& routed, const TokenPositions& where) {
  require_positions(where, routed.routing.tokens, routed.routing.router);
  const auto experts = static_cast<std::size_t>(experts_), k = static_cast<std::size_t>(top_k_);
  const std::size_t all = static_cast<std::size_t>(where.sequences) * experts;
  std::vector<double> sums(2 * all);  // assignments, then probabilities
  std::vector<double> shares(experts);
  for (std::size_t t = 0; t < static_cast<std::size_t>(routed.routing.tokens) && !routed.routing.fault; ++t) {
    const std::size_t row = static_cast<std::size_t>(where.sequence[t]) * experts;
    shares_of(std::span<const T>(routed.logits.data() + t * experts, experts), score_, shares);
    for (std::size_t e = 0; e < experts; ++e) sums[all + row + e] += shares[e];
    for (std::size_t i = 0; i < k; ++i) sums[row + static_cast<std::size_t>(routed.chosen[t * k + i])] += 1;
  }
  if (group_->size() > 1) group_->all_reduce(sums, ReduceOp::Sum, group_.options("balance loss of experts")).get();
  Result result;
  result.pull.resize(all);
  const double factor =
      coefficient_ * static_cast<double>(experts_) / static_cast<double>(top_k_) / static_cast<double>(where.length);
  for (std::size_t i = 0; i < all; ++i) {
    result.pull[i] = factor * sums[i];
    result.loss += result.pull[i] * sums[all + i];
  }
  return result;
}

template class BalanceLoss<float>;
template class BalanceLoss<double>;

}  // namespace sinew::parallel
