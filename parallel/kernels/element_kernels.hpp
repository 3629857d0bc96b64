#pragma once

#include <cstdint>

#include <sinew/parallel/common/philox.hpp>
#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/team.hpp>

// Kernels on single elements (LayerMath). Arrays have `count` elements.
namespace sinew::parallel::kernels {

/// to = from, in the dtype of `to`.
struct ConvertArguments {
  const void* from;
  void* to;
  std::int64_t count;
};
template <class From, class To, class Team>
SINEW_KERNEL void convert(const Team& team, const ConvertArguments& a) {
  const From* const from = team.memory(static_cast<const From*>(a.from), a.count);
  To* const to = team.memory(static_cast<To*>(a.to), a.count);
  team.for_each(a.count, [&](std::int64_t i) { to[i] = team.template narrow<To>(team.wide(from[i])); });
}

template <class T>
struct FillArguments {
  T* to;
  T value;
  std::int64_t count;
};
template <class T, class Team>
SINEW_KERNEL void fill(const Team& team, const FillArguments<T>& a) {
  T* const to = team.memory(a.to, a.count);
  team.for_each(a.count, [&](std::int64_t i) { to[i] = a.value; });
}

/// to = beta * to + x. With a beta of 0 `to` is not read.
template <class T>
struct AddArguments {
  const T* x;
  T beta;
  T* to;
  std::int64_t count;
};
template <class T, class Team>
SINEW_KERNEL void add(const Team& team, const AddArguments<T>& a) {
  const T* const x = team.memory(a.x, a.count);
  T* const to = team.memory(a.to, a.count);
  const T beta = a.beta;
  team.for_each(a.count, [&](std::int64_t i) { to[i] = beta == T{0} ? x[i] : beta * to[i] + x[i]; });
}

/// Rounds elements of a wide dtype to numbers of a narrow dtype.
struct RoundArguments {
  void* x;
  std::int64_t count;
};
template <class Narrow, class T, class Team>
SINEW_KERNEL void round(const Team& team, const RoundArguments& a) {
  T* const x = team.memory(static_cast<T*>(a.x), a.count);
  team.for_each(a.count, [&](std::int64_t i) { x[i] = team.wide(team.template narrow<Narrow>(x[i])); });
}

/// sums += x. The sum of two elements is computed in the wider dtype of both.
struct AddToArguments {
  void* sums;
  const void* x;
  std::int64_t count;
};
template <class Stored, class T, class Team>
SINEW_KERNEL void add_to(const Team& team, const AddToArguments& a) {
  Stored* const sums = team.memory(static_cast<Stored*>(a.sums), a.count);
  const T* const x = team.memory(static_cast<const T*>(a.x), a.count);
  team.for_each(a.count, [&](std::int64_t i) { sums[i] = team.template narrow<Stored>(team.wide(sums[i]) + x[i]); });
}

template <class T>
struct ApplyArguments {
  Function f;
  const T* x;
  T* y;
  std::int64_t count;
};
/// tanh of what Gelu takes it of.
template <class Team, class T>
SINEW_KERNEL T gelu_tanh(const Team& team, T x) {
  return team.tanh(static_cast<T>(kGeluRoot) * (x + x * x * x * static_cast<T>(kGeluCube)));
}
template <class T, class Team>
SINEW_KERNEL void apply(const Team& team, const ApplyArguments<T>& a) {
  const T* const x = team.memory(a.x, a.count);
  T* const y = team.memory(a.y, a.count);
  const auto write = [&](const auto& f) { team.for_each(a.count, [&](std::int64_t i) { y[i] = f(x[i]); }); };
  switch (a.f) {
    case Function::Gelu:
      return write([&](T v) {
        const T half = v * static_cast<T>(0.5);
        return half + half * gelu_tanh(team, v);
      });
    case Function::Relu: return write([](T v) { return v > 0 ? v : T{0}; });
    case Function::Tanh: return write([&](T v) { return team.tanh(v); });
  }
}
/// y = y * f'(x).
template <class T>
struct ApplySlopeArguments : ApplyArguments<T> {};
template <class T, class Team>
SINEW_KERNEL void apply_slope(const Team& team, const ApplySlopeArguments<T>& a) {
  const T* const x = team.memory(a.x, a.count);
  T* const dy = team.memory(a.y, a.count);
  const auto write = [&](const auto& f) { team.for_each(a.count, [&](std::int64_t i) { dy[i] = f(x[i], dy[i]); }); };
  switch (a.f) {
    case Function::Gelu:
      return write([&](T v, T d) {
        const T t = gelu_tanh(team, v), half = static_cast<T>(0.5);
        const T inner = static_cast<T>(kGeluRoot) * (v * v * static_cast<T>(3 * kGeluCube) + 1);
        return d * (t * half + half + v * half * (1 - t * t) * inner);
      });
    case Function::Relu: return write([](T v, T d) { return v > 0 ? d : T{0}; });
    case Function::Tanh:
      return write([&](T v, T d) {
        const T t = team.tanh(v);
        return d * (1 - t * t);
      });
  }
}

/// The choices of DropOptions. x is [rows, width]; row r has the number first_row + numbers[r] in the whole matrix.
template <class T>
struct DropArguments {
  PhiloxKey key;
  std::uint64_t step;
  double probability;
  T factor;  ///< of the elements that stay
  std::int64_t columns, first_row, first_column;
  const std::int64_t* numbers;
  std::int64_t rows, width;
  T* x;
};
template <class T, class Team>
SINEW_KERNEL void drop(const Team& team, const DropArguments<T>& a) {
  const std::int64_t* const numbers = team.memory(a.numbers, a.rows);
  T* const x = team.memory(a.x, a.rows * a.width);
  team.for_rows(a.rows, a.width, [&](const auto& group, std::int64_t r) {
    T* const row = x + r * a.width;
    const std::int64_t first = (a.first_row + numbers[r]) * a.columns + a.first_column;
    group.each(a.width, [&](std::int64_t c) {
      const std::uint64_t number = (a.step << kDropElementBits) | static_cast<std::uint64_t>(first + c);
      row[c] = philox_uniform(a.key, number) < a.probability ? T{0} : row[c] * a.factor;
    });
  });
}

}  // namespace sinew::parallel::kernels
