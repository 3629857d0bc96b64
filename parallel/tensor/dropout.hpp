#pragma once

#include <cstdint>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/placement/box.hpp>

namespace sinew::parallel {

/// Dropout whose mask is a function of the seed, the layer, the step, and the place of an element in the whole tensor.
/// The mask is the same for every cut of rows and columns, on every rank, forward and backward. So no mask is kept.
/// Cost: one number of KeyedRandom for each element.
class SINEW_API Dropout {
 public:
  /// Errors: InvalidArgument naming the layer unless 0 <= probability < 1.
  Dropout(std::uint64_t seed, std::string_view layer, double probability);

  /// Drops elements of `part`, a box of a tensor [rows, columns], and multiplies the other elements by 1 / (1 -
  /// probability). The same call on gradients is the backward pass.
  /// Shape: x [part's rows, part's columns].
  template <class T>
  void apply(T* x, const Box& part, std::int64_t columns, std::uint64_t step) const;
  /// The choices of a step for a tensor [rows, columns], as LayerMath::drop() takes them.
  kernels::DropOptions options(std::uint64_t step, std::int64_t columns, std::int64_t first_row = 0,
                               std::int64_t first_column = 0) const noexcept {
    return {random_.key(), step, probability_, columns, first_row, first_column};
  }
  double probability() const noexcept { return probability_; }

 private:
  KeyedRandom random_;
  double probability_;
};

extern template void Dropout::apply(float*, const Box&, std::int64_t, std::uint64_t) const;
extern template void Dropout::apply(double*, const Box&, std::int64_t, std::uint64_t) const;

}  // namespace sinew::parallel
