#pragma once

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A loss as a sum over tokens or samples, with the number or the weight of these. A mean of means is wrong if ranks or
/// microbatches have unequal numbers of tokens. Sums of both parts are right under any layout.
/// Use it so: compute gradients of the sum (ReduceOp::Sum over ranks), add up the losses of all microbatches, and give
/// the optimizer scale() of the total.
struct WeightedLoss {
  double sum = 0;
  double weight = 0;

  WeightedLoss& operator+=(const WeightedLoss& other) noexcept {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  /// 0 if the weight is 0.
  double mean() const noexcept { return weight > 0 ? sum / weight : 0; }
  /// The factor that turns gradients of the sum into gradients of the mean.
  double scale() const noexcept { return weight > 0 ? 1 / weight : 0; }
};

/// The total over the ranks of a communicator. A rank without tokens adds nothing.
SINEW_API WeightedLoss total(Communicator& ranks, WeightedLoss mine, const CallOptions& = {});

}  // namespace sinew::parallel
