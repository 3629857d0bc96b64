#pragma once

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A loss as what it is made of: the sum over tokens (or samples) and how many, or how heavy, they were. Means of means
/// are wrong where ranks or micro-batches have unequal numbers; sums of both parts are right under any layout.
/// Use: let gradients be those of the sum (ReduceOp::Sum over ranks), add up the parts of all micro-batches, and
/// give the optimizer scale() of the total.
struct WeightedLoss {
  double sum = 0;
  double weight = 0;

  WeightedLoss& operator+=(const WeightedLoss& other) noexcept {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  /// 0 where nothing counted.
  double mean() const noexcept { return weight > 0 ? sum / weight : 0; }
  /// What makes gradients of the sum those of the mean.
  double scale() const noexcept { return weight > 0 ? 1 / weight : 0; }
};

/// The total over the ranks of a communicator; ranks without a token count as nothing.
SINEW_API WeightedLoss total(Communicator& ranks, WeightedLoss mine, const CallOptions& = {});

}  // namespace sinew::parallel
