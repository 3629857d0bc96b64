#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>

namespace sinew::parallel {

/// A learning rate that rises linearly in the first steps, and then falls along a cosine to a part of its highest value
/// at the last step.
/// Source: Loshchilov and Hutter, SGDR, arXiv 1608.03983; warm-up as GPT-3 has it.
struct CosineRate {
  double highest = 1e-3;
  std::int64_t warmup = 0;  ///< steps in which the rate rises
  std::int64_t steps = 1;   ///< all steps of the training
  double lowest = 0.1;      ///< of the last step, as a part of `highest`

  /// The rate of a step, counted from 0.
  SINEW_API double at(std::int64_t step) const noexcept;
};

}  // namespace sinew::parallel
