#pragma once

#include <cstdint>

#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/team.hpp>

// Kernels of the cross-entropy over some columns of a vocabulary (LayerMath). They compute in double.
// Shape: logits [rows, columns]; targets, maxima, not_numbers [rows]; sums [rows, 3].
namespace sinew::parallel::kernels {

/// maxima: -infinity for rows of no columns. not_numbers: 1 if the row has a NaN, otherwise 0.
template <class T>
struct RowMaximaArguments {
  const T* logits;
  std::int64_t rows, columns;
  double *maxima, *not_numbers;
};
template <class T, class Team>
SINEW_KERNEL void row_maxima(const Team& team, const RowMaximaArguments<T>& a) {
  const T* const logits = team.memory(a.logits, a.rows * a.columns);
  double* const maxima = team.memory(a.maxima, a.rows);
  double* const not_numbers = team.memory(a.not_numbers, a.rows);
  team.for_rows(a.rows, a.columns, [&](const auto& group, std::int64_t r) {
    const T* const row = logits + r * a.columns;
    const Largest<T> largest = largest_of(group, -kInfinite<T>, a.columns, [&](std::int64_t c) { return row[c]; });
    group.once([&] {
      maxima[r] = static_cast<double>(largest.most);
      not_numbers[r] = static_cast<double>(largest.has_nan);
    });
  });
}

/// logits = exp(logits - maxima). sums: three for each row, as LayerMath has them. first: the number of the first
/// column in the vocabulary. The first sum of a row that has a NaN is a NaN.
template <class T>
struct ExponentialsArguments {
  T* logits;
  std::int64_t rows, columns;
  const std::int64_t* targets;
  std::int64_t first;
  const double *maxima, *not_numbers;
  double* sums;
};
template <class T, class Team>
SINEW_KERNEL void exponentials(const Team& team, const ExponentialsArguments<T>& a) {
  struct Sums {
    double powers, target, all;
  };
  T* const logits = team.memory(a.logits, a.rows * a.columns);
  const std::int64_t* const targets = team.memory(a.targets, a.rows);
  const double* const maxima = team.memory(a.maxima, a.rows);
  const double* const not_numbers = team.memory(a.not_numbers, a.rows);
  double* const sums = team.memory(a.sums, 3 * a.rows);
  team.for_rows(a.rows, a.columns, [&](const auto& group, std::int64_t r) {
    T* const row = logits + r * a.columns;
    const std::int64_t target = targets[r] - a.first;
    const double most = maxima[r];
    const Sums of_row = group.join(
        a.columns, Sums{0, 0, 0},
        [&](std::int64_t c) {
          const double above = static_cast<double>(row[c]) - most, power = team.exp(above);
          row[c] = static_cast<T>(power);
          return Sums{power, c == target ? above : 0, above};
        },
        [](const Sums& p, const Sums& q) {
          return Sums{p.powers + q.powers, p.target + q.target, p.all + q.all};
        });
    group.once([&] {
      sums[3 * r] = not_numbers[r] != 0 ? kNotANumber<double> : of_row.powers;
      sums[3 * r + 1] = of_row.target;
      sums[3 * r + 2] = of_row.all;
    });
  });
}

/// Divides each row by its first sum.
template <class T>
struct DivideRowsArguments {
  T* of;
  std::int64_t rows, columns;
  const double* sums;
};
template <class T, class Team>
SINEW_KERNEL void divide_rows(const Team& team, const DivideRowsArguments<T>& a) {
  T* const of = team.memory(a.of, a.rows * a.columns);
  const double* const sums = team.memory(a.sums, 3 * a.rows);
  team.for_rows(a.rows, a.columns, [&](const auto& group, std::int64_t r) {
    T* const row = of + r * a.columns;
    const double factor = 1 / sums[3 * r];
    group.each(a.columns, [&](std::int64_t c) { row[c] = static_cast<T>(static_cast<double>(row[c]) * factor); });
  });
}

/// softmax becomes the gradient of the logits (CrossEntropyScale).
template <class T>
struct CrossEntropyGradientArguments {
  CrossEntropyScale scale;
  const std::int64_t* targets;
  std::int64_t first, rows, columns;
  T* softmax;
};
template <class T, class Team>
SINEW_KERNEL void cross_entropy_gradient(const Team& team, const CrossEntropyGradientArguments<T>& a) {
  const CrossEntropyScale& s = a.scale;
  const std::int64_t* const targets = team.memory(a.targets, a.rows);
  T* const softmax = team.memory(a.softmax, a.rows * a.columns);
  const double each = s.smoothing / static_cast<double>(s.vocabulary);
  const T of_target = static_cast<T>(s.scale * (1 - s.smoothing));
  team.for_rows(a.rows, a.columns, [&](const auto& group, std::int64_t r) {
    T* const row = softmax + r * a.columns;
    const bool is_ignored = targets[r] == s.ignored;
    const std::int64_t target = targets[r] - a.first;
    group.each(a.columns, [&](std::int64_t c) {
      const T slope = static_cast<T>(s.scale * (static_cast<double>(row[c]) - each));
      row[c] = is_ignored ? T{0} : c == target ? slope - of_target : slope;
    });
  });
}

}  // namespace sinew::parallel::kernels
