#pragma once

#include <cstdint>

#include <sinew/parallel/kernels/team.hpp>

// Kernels on rows (LayerMath). `stride` is the distance in elements from one row to the next. Without it rows lie one
// behind the other.
namespace sinew::parallel::kernels {

template <class T>
struct CopyRowsArguments {
  const T* from;
  std::int64_t from_stride;
  T* to;
  std::int64_t to_stride, rows, width;
};
template <class T, class Team>
SINEW_KERNEL void copy_rows(const Team& team, const CopyRowsArguments<T>& a) {
  const T* const from = team.memory(a.from, extent_of(a.rows, a.width, a.from_stride));
  T* const to = team.memory(a.to, extent_of(a.rows, a.width, a.to_stride));
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    group.each(a.width, [&](std::int64_t i) { to[r * a.to_stride + i] = from[r * a.from_stride + i]; });
  });
}

/// to += from.
template <class T>
struct AddRowsArguments {
  const T* from;
  std::int64_t from_stride;
  T* to;
  std::int64_t to_stride, rows, width;
};
template <class T, class Team>
SINEW_KERNEL void add_rows(const Team& team, const AddRowsArguments<T>& a) {
  const T* const from = team.memory(a.from, extent_of(a.rows, a.width, a.from_stride));
  T* const to = team.memory(a.to, extent_of(a.rows, a.width, a.to_stride));
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    group.each(a.width, [&](std::int64_t i) { to[r * a.to_stride + i] += from[r * a.from_stride + i]; });
  });
}

template <class T>
struct ZeroRowsArguments {
  T* to;
  std::int64_t stride, rows, width;
};
template <class T, class Team>
SINEW_KERNEL void zero_rows(const Team& team, const ZeroRowsArguments<T>& a) {
  T* const to = team.memory(a.to, extent_of(a.rows, a.width, a.stride));
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    group.each(a.width, [&](std::int64_t i) { to[r * a.stride + i] = T{0}; });
  });
}

/// Adds `row` to each row of `to`.
template <class T>
struct AddToRowsArguments {
  const T* row;
  T* to;
  std::int64_t stride, rows, width;
};
template <class T, class Team>
SINEW_KERNEL void add_to_rows(const Team& team, const AddToRowsArguments<T>& a) {
  const T* const row = team.memory(a.row, a.width);
  T* const to = team.memory(a.to, extent_of(a.rows, a.width, a.stride));
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    group.each(a.width, [&](std::int64_t i) { to[r * a.stride + i] += row[i]; });
  });
}

/// to = beta * to + the sum of all rows. With a beta of 0 `to` is not read.
template <class T>
struct SumRowsArguments {
  const T* from;
  std::int64_t stride, rows, width;
  T beta;
  T* to;
};
template <class T, class Team>
SINEW_KERNEL void sum_rows(const Team& team, const SumRowsArguments<T>& a) {
  const T* const from = team.memory(a.from, extent_of(a.rows, a.width, a.stride));
  T* const to = team.memory(a.to, a.width);
  const T beta = a.beta;
  team.for_columns(
      a.width, a.rows, [&](std::int64_t r, std::int64_t c) { return from[r * a.stride + c]; },
      [&](std::int64_t c, T sum) { to[c] = beta == T{0} ? sum : beta * to[c] + sum; });
}

/// to[r] = the sum of a[r][i] * b[r][i].
template <class T>
struct DotRowsArguments {
  const T *a, *b;
  std::int64_t rows, width;
  T* to;
};
template <class T, class Team>
SINEW_KERNEL void dot_rows(const Team& team, const DotRowsArguments<T>& a) {
  const T* const left = team.memory(a.a, a.rows * a.width);
  const T* const right = team.memory(a.b, a.rows * a.width);
  T* const to = team.memory(a.to, a.rows);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const T *const x = left + r * a.width, *const y = right + r * a.width;
    const T sum = sum_of(group, a.width, [&](std::int64_t i) { return x[i] * y[i]; });
    group.once([&] { to[r] = sum; });
  });
}

/// Row r of `to` becomes beta times itself plus row index[r] - first of the table, or zeros if index[r] is not in
/// [first, last). With a beta of 0 `to` is not read. The table has last - first rows.
template <class T>
struct GatherRowsArguments {
  const std::int64_t* index;
  std::int64_t first, last;
  const T* table;
  std::int64_t rows, width;
  T beta;
  T* to;
};
template <class T, class Team>
SINEW_KERNEL void gather_rows(const Team& team, const GatherRowsArguments<T>& a) {
  const std::int64_t* const index = team.memory(a.index, a.rows);
  const T* const table = team.memory(a.table, (a.last - a.first) * a.width);
  T* const to = team.memory(a.to, a.rows * a.width);
  const T beta = a.beta;
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const bool is_here = index[r] >= a.first && index[r] < a.last;
    const std::int64_t from = (index[r] - a.first) * a.width, at = r * a.width;
    group.each(a.width, [&](std::int64_t i) {
      const T x = is_here ? table[from + i] : T{0};
      to[at + i] = beta == T{0} ? x : beta * to[at + i] + x;
    });
  });
}

/// Adds row r of `from` to row index[r] - first of the table, if index[r] is in [first, last). The group of the first
/// row with an index adds all rows with this index, in their order.
/// Cost: each group reads the indices, so all groups together read rows^2 of them.
template <class T>
struct ScatterRowsArguments {
  const std::int64_t* index;
  std::int64_t first, last;
  const T* from;
  std::int64_t rows, width;
  T* table;
};
template <class T, class Team>
SINEW_KERNEL void scatter_rows(const Team& team, const ScatterRowsArguments<T>& a) {
  const std::int64_t* const index = team.memory(a.index, a.rows);
  const T* const from = team.memory(a.from, a.rows * a.width);
  T* const table = team.memory(a.table, (a.last - a.first) * a.width);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    const std::int64_t mine = index[r];
    if (mine < a.first || mine >= a.last) return;
    const auto is_mine = [&](std::int64_t i) { return index[i] == mine; };
    if (group.first(0, r, is_mine) < r) return;
    T* const to = table + (mine - a.first) * a.width;
    for (std::int64_t next = r; next < a.rows; next = group.first(next + 1, a.rows, is_mine)) {
      const T* const row = from + next * a.width;
      group.each(a.width, [&](std::int64_t i) { to[i] += row[i]; });
    }
  });
}

}  // namespace sinew::parallel::kernels
