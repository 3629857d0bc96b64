#pragma once

#include <cstdint>

#include <sinew/parallel/kernels/team.hpp>
#include <sinew/parallel/optim/update_rule/kernels.hpp>

// Kernels of an optimizer.
namespace sinew::parallel::kernels {

/// One step of Adam. `state` holds the master values if values have 16 bits, then the means, then the squares.
struct AdamArguments {
  void* value;
  const void* gradient;
  void* state;
  std::int64_t count;
  AdamStep step;
};

/// One step of SGD. `state` holds the master values if values have 16 bits, then the velocities if there is momentum.
struct SgdArguments {
  void* value;
  const void* gradient;
  void* state;
  std::int64_t count;
  SgdStep step;
};

/// Each team writes the sum of the squares of its elements.
/// Shape: partial [teams].
struct SquaresArguments {
  const void* in;
  double* partial;
  std::int64_t count;
};

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

template <class Stored, class Team>
SINEW_KERNEL void squares(const Team& team, const SquaresArguments& a) {
  const Stored* const in = team.memory(static_cast<const Stored*>(a.in), a.count);
  double* const partial = team.memory(a.partial, team.teams());
  const std::int64_t each = (a.count + team.teams() - 1) / team.teams();
  const std::int64_t first = each * team.index() < a.count ? each * team.index() : a.count;
  const std::int64_t last = first + each < a.count ? first + each : a.count;
  const auto group = team.whole();
  const double sum = sum_of(group, last - first, [&](std::int64_t i) {
    const double x = static_cast<double>(team.wide(in[first + i]));
    return x * x;
  });
  group.once([&] { partial[team.index()] = sum; });
}

}  // namespace sinew::parallel::kernels
