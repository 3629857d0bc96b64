#include <algorithm>
#include <cmath>
#include <numbers>

#include <sinew/parallel/optim/learning_rate.hpp>

namespace sinew::parallel {

double CosineRate::at(std::int64_t step) const noexcept {
  if (step < warmup) return highest * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const auto rest = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double gone = std::min(static_cast<double>(step - warmup) / rest, 1.0);
  return highest * (lowest + (1 - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * gone)));
}

}  // namespace sinew::parallel
