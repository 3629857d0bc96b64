#pragma once

#include <cstdint>

#include <sinew/parallel/kernels/team.hpp>

// Kernels of layer normalisation (LayerMath).
// Shape: x, y, dy, dx [rows, width]; mean, factor [rows]; weight, bias, dweight [width].
namespace sinew::parallel::kernels {

/// Writes mean and factor, and y.
template <class T>
struct NormaliseArguments {
  const T *x, *weight, *bias;
  std::int64_t rows, width;
  T epsilon;
  T *mean, *factor, *y;
};
template <class T, class Team>
SINEW_KERNEL void normalise(const Team& team, const NormaliseArguments<T>& a) {
  const T* const x = team.memory(a.x, a.rows * a.width);
  const T* const weight = team.memory(a.weight, a.width);
  const T* const bias = team.memory(a.bias, a.width);
  T* const means = team.memory(a.mean, a.rows);
  T* const factors = team.memory(a.factor, a.rows);
  T* const y = team.memory(a.y, a.rows * a.width);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const T* const row = x + r * a.width;
    T* const to = y + r * a.width;
    const T width = static_cast<T>(a.width);
    const T mean = sum_of(group, a.width, [&](std::int64_t i) { return row[i]; }) / width;
    const T squares = sum_of(group, a.width, [&](std::int64_t i) { return (row[i] - mean) * (row[i] - mean); });
    const T factor = 1 / team.root(squares / width + a.epsilon);
    group.each(a.width, [&](std::int64_t i) { to[i] = (row[i] - mean) * factor * weight[i] + bias[i]; });
    group.once([&] {
      means[r] = mean;
      factors[r] = factor;
    });
  });
}

/// Writes y again.
template <class T>
struct RenormaliseArguments {
  const T *x, *mean, *factor, *weight, *bias;
  std::int64_t rows, width;
  T* y;
};
template <class T, class Team>
SINEW_KERNEL void renormalise(const Team& team, const RenormaliseArguments<T>& a) {
  const T* const x = team.memory(a.x, a.rows * a.width);
  const T* const means = team.memory(a.mean, a.rows);
  const T* const factors = team.memory(a.factor, a.rows);
  const T* const weight = team.memory(a.weight, a.width);
  const T* const bias = team.memory(a.bias, a.width);
  T* const y = team.memory(a.y, a.rows * a.width);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const T* const row = x + r * a.width;
    T* const to = y + r * a.width;
    const T mean = means[r], factor = factors[r];
    group.each(a.width, [&](std::int64_t i) { to[i] = (row[i] - mean) * factor * weight[i] + bias[i]; });
  });
}

template <class T>
struct NormaliseInputGradientArguments {
  const T *x, *mean, *factor, *weight, *dy;
  std::int64_t rows, width;
  T* dx;
};
template <class T, class Team>
SINEW_KERNEL void normalise_input_gradient(const Team& team, const NormaliseInputGradientArguments<T>& a) {
  struct Sums {
    T slopes, along;
  };
  const T* const x = team.memory(a.x, a.rows * a.width);
  const T* const means = team.memory(a.mean, a.rows);
  const T* const factors = team.memory(a.factor, a.rows);
  const T* const weight = team.memory(a.weight, a.width);
  const T* const dy = team.memory(a.dy, a.rows * a.width);
  T* const dx = team.memory(a.dx, a.rows * a.width);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const T *const row = x + r * a.width, *const of = dy + r * a.width;
    T* const to = dx + r * a.width;
    const T mean = means[r], factor = factors[r], width = static_cast<T>(a.width);
    const Sums sums = group.join(
        a.width, Sums{0, 0},
        [&](std::int64_t i) {
          const T slope = of[i] * weight[i];
          return Sums{slope, slope * ((row[i] - mean) * factor)};
        },
        [](const Sums& p, const Sums& q) {
          return Sums{p.slopes + q.slopes, p.along + q.along};
        });
    const T slope_mean = sums.slopes / width, along = sums.along / width;
    group.each(a.width, [&](std::int64_t i) {
      to[i] = (of[i] * weight[i] - slope_mean - (row[i] - mean) * factor * along) * factor;
    });
  });
}

/// dweight = the sum over rows of dy * (x - mean) * factor.
template <class T>
struct NormaliseWeightGradientArguments {
  const T *x, *mean, *factor, *dy;
  std::int64_t rows, width;
  T* dweight;
};
template <class T, class Team>
SINEW_KERNEL void normalise_weight_gradient(const Team& team, const NormaliseWeightGradientArguments<T>& a) {
  const T* const x = team.memory(a.x, a.rows * a.width);
  const T* const mean = team.memory(a.mean, a.rows);
  const T* const factor = team.memory(a.factor, a.rows);
  const T* const dy = team.memory(a.dy, a.rows * a.width);
  T* const dweight = team.memory(a.dweight, a.width);
  team.for_columns(
      a.width, a.rows,
      [&](std::int64_t r, std::int64_t c) {
        const std::int64_t i = r * a.width + c;
        return dy[i] * (x[i] - mean[r]) * factor[r];
      },
      [&](std::int64_t c, T sum) { dweight[c] = sum; });
}

}  // namespace sinew::parallel::kernels
