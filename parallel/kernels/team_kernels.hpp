#pragma once

#include <cstdint>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/kernels/arguments.hpp>

// Kernels as functions of a Team. All threads of a team call the functions of the Team together. A Team has:
//   index()                  the number of this team
//   teams()                  the number of teams
//   memory(address, count)   the address at which `count` elements may be read and written
//   for_each(count, f)       calls f(i) for all i below count; the threads of all teams share the calls
//   sum(first, last, f)      the sum of f(i); the threads of this team share the calls, and all of them get the sum
//   once(f)                  calls f() on one thread of this team
//   wide(x)                  the number in a stored element
//   narrow<T>(x)             the stored element of a number
//   root(x)                  the square root
//
// SINEW_KERNEL stands before each function of this header: the compiler of the image has attributes of its own.
#ifndef SINEW_KERNEL
#define SINEW_KERNEL
#endif

namespace sinew::parallel::kernels {

/// The type in which elements of a dtype are computed.
template <class Stored>
struct ComputedOf {
  using Type = float;
  static constexpr bool kIsNarrow = true;
};
template <>
struct ComputedOf<float> {
  using Type = float;
  static constexpr bool kIsNarrow = false;
};
template <>
struct ComputedOf<double> {
  using Type = double;
  static constexpr bool kIsNarrow = false;
};
template <class Stored>
using Computed = typename ComputedOf<Stored>::Type;

/// update(i, value, gradient) returns the new value of element i. Narrow values are updated in their master values,
/// which lie at the beginning of the state.
template <class Stored, class Gradient, class Team, class Update>
SINEW_KERNEL void update_values(const Team& team, void* values, const void* gradients, void* state, std::int64_t count,
                                const Update& update) {
  using C = Computed<Stored>;
  Stored* const value = team.memory(static_cast<Stored*>(values), count);
  const Gradient* const gradient = team.memory(static_cast<const Gradient*>(gradients), count);
  if constexpr (ComputedOf<Stored>::kIsNarrow) {
    C* const master = team.memory(static_cast<C*>(state), count);
    team.for_each(count, [&](std::int64_t i) {
      master[i] = update(i, master[i], static_cast<C>(team.wide(gradient[i])));
      value[i] = team.template narrow<Stored>(master[i]);
    });
  } else {
    team.for_each(count, [&](std::int64_t i) { value[i] = update(i, value[i], gradient[i]); });
  }
}

/// The state behind the master values, if there are any.
template <class Stored>
SINEW_KERNEL Computed<Stored>* kept_state(void* state, std::int64_t count) {
  return static_cast<Computed<Stored>*>(state) + (ComputedOf<Stored>::kIsNarrow ? count : 0);
}

template <class Stored, class Gradient, class Team>
SINEW_KERNEL void adam(const Team& team, const AdamArguments& a) {
  using C = Computed<Stored>;
  const AdamStep& s = a.step;
  C* const mean = team.memory(kept_state<Stored>(a.state, a.count), 2 * a.count);
  C* const square = mean + a.count;
  const C decay = static_cast<C>(s.decay), scale = static_cast<C>(s.scale), beta1 = static_cast<C>(s.beta1),
          beta2 = static_cast<C>(s.beta2), rest1 = static_cast<C>(1 - s.beta1), rest2 = static_cast<C>(1 - s.beta2),
          root_scale = static_cast<C>(s.root_scale), epsilon = static_cast<C>(s.epsilon), rate = static_cast<C>(s.rate),
          keep = static_cast<C>(s.keep);
  update_values<Stored, Gradient>(team, a.value, a.gradient, a.state, a.count, [&](std::int64_t i, C x, C gradient) {
    const C g = x * decay + gradient * scale;
    mean[i] = mean[i] * beta1 + g * rest1;
    square[i] = square[i] * beta2 + g * g * rest2;
    return x * keep - mean[i] * rate / (team.root(square[i]) * root_scale + epsilon);
  });
}

template <class Stored, class Gradient, class Team>
SINEW_KERNEL void sgd(const Team& team, const SgdArguments& a) {
  using C = Computed<Stored>;
  const SgdStep& s = a.step;
  C* const velocity = s.momentum > 0 ? team.memory(kept_state<Stored>(a.state, a.count), a.count) : nullptr;
  const C decay = static_cast<C>(s.decay), scale = static_cast<C>(s.scale), momentum = static_cast<C>(s.momentum),
          rate = static_cast<C>(s.rate);
  update_values<Stored, Gradient>(team, a.value, a.gradient, a.state, a.count, [&](std::int64_t i, C x, C gradient) {
    const C g = x * decay + gradient * scale;
    if (velocity == nullptr) return x - g * rate;
    velocity[i] = s.first ? g : velocity[i] * momentum + g;
    return x - (s.nesterov ? velocity[i] * momentum + g : velocity[i]) * rate;
  });
}

template <class From, class To, class Team>
SINEW_KERNEL void convert(const Team& team, const ConvertArguments& a) {
  const From* const from = team.memory(static_cast<const From*>(a.from), a.count);
  To* const to = team.memory(static_cast<To*>(a.to), a.count);
  team.for_each(a.count, [&](std::int64_t i) { to[i] = team.template narrow<To>(team.wide(from[i])); });
}

template <class Stored, class Team>
SINEW_KERNEL void squares(const Team& team, const SquaresArguments& a) {
  const Stored* const in = team.memory(static_cast<const Stored*>(a.in), a.count);
  double* const partial = team.memory(a.partial, team.teams());
  const std::int64_t each = (a.count + team.teams() - 1) / team.teams();
  const std::int64_t first = each * team.index() < a.count ? each * team.index() : a.count;
  const std::int64_t last = first + each < a.count ? first + each : a.count;
  const double sum = team.sum(first, last, [&](std::int64_t i) {
    const double x = static_cast<double>(team.wide(in[i]));
    return x * x;
  });
  team.once([&] { partial[team.index()] = sum; });
}

/// Every kernel of the image: row(name, function, argument).
// clang-format off
#define SINEW_DEVICE_KERNELS(row)                                        \
  row(adam_f64, (adam<double, double>), AdamArguments)                   \
  row(adam_f32, (adam<float, float>), AdamArguments)                     \
  row(adam_bf16, (adam<BFloat16, BFloat16>), AdamArguments)              \
  row(adam_bf16_f32, (adam<BFloat16, float>), AdamArguments)             \
  row(adam_f16, (adam<Half, Half>), AdamArguments)                       \
  row(adam_f16_f32, (adam<Half, float>), AdamArguments)                  \
  row(sgd_f64, (sgd<double, double>), SgdArguments)                      \
  row(sgd_f32, (sgd<float, float>), SgdArguments)                        \
  row(sgd_bf16, (sgd<BFloat16, BFloat16>), SgdArguments)                 \
  row(sgd_bf16_f32, (sgd<BFloat16, float>), SgdArguments)                \
  row(sgd_f16, (sgd<Half, Half>), SgdArguments)                          \
  row(sgd_f16_f32, (sgd<Half, float>), SgdArguments)                     \
  row(convert_bf16_f32, (convert<BFloat16, float>), ConvertArguments)    \
  row(convert_f16_f32, (convert<Half, float>), ConvertArguments)         \
  row(convert_f32_bf16, (convert<float, BFloat16>), ConvertArguments)    \
  row(convert_f32_f16, (convert<float, Half>), ConvertArguments)         \
  row(squares_f64, (squares<double>), SquaresArguments)                  \
  row(squares_f32, (squares<float>), SquaresArguments)                   \
  row(squares_bf16, (squares<BFloat16>), SquaresArguments)               \
  row(squares_f16, (squares<Half>), SquaresArguments)
// clang-format on

}  // namespace sinew::parallel::kernels
