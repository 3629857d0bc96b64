#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/modules/layers/gates.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>

namespace sinew::parallel {
namespace {

constexpr double kMostRate = 16;

template <class T>
void require_state_space_parts(const StateSpaceParts<T>& parts, const StateSpaceShape& shape,
                               const HeadScanSizes& sizes) {
  const auto text = [](const HeadScanSizes& of, std::int64_t taps, std::int64_t chunk) {
    return fmt::format("{} sequences of {} heads of {} elements with {} states, {} groups, {} taps and chunks of {}",
                       of.sequences, of.heads, of.head_width, of.states, of.groups, taps, chunk);
  };
  if (parts.sizes != sizes || parts.width_of_taps != shape.taps || parts.chunk != shape.chunk)
    throw Error(Code::InvalidArgument,
                fmt::format("state space '{}': parts for {}, expected {}", shape.name,
                            text(parts.sizes, parts.width_of_taps, parts.chunk), text(sizes, shape.taps, shape.chunk)));
  if (parts.positions != shape.positions)
    throw Error(Code::InvalidArgument, fmt::format("state space '{}': parts for positions that are cut in another way, "
                                                   "expected those of the layer",
                                                   shape.name));
}

/// Rates are distributed uniformly from 1 to the most. Their logarithms are the parameter.
InitialRule logarithms_of_rates() {
  return [](const KeyedRandom& random, std::int64_t k) {
    return std::log(1 + (kMostRate - 1) * random.uniform(static_cast<std::uint64_t>(k)));
  };
}

}  // namespace

template <class T>
StateSpaceParts<T>::StateSpaceParts(const LayerGroup& group, CallGroup context, const StateSpaceShape& shape)
    : sizes([&] {
        const StateSpaceShape checked = checked_state_space(shape, group, context);
        return state_space_sizes(checked, state_space_cut(checked, group));
      }()),
      width_of_taps(shape.taps),
      chunk(shape.chunk),
      positions(shape.positions),
      taps(context, {sizes.sequences, tapped_of(sizes), shape.taps}, shape.positions),
      scan(context, *group.blas, sizes, shape.positions, shape.chunk) {}

template <class T>
StateSpaceModule<T>::StateSpaceModule(const LayerGroup& group, CallGroup context, const StateSpaceShape& shape,
                                      const ScanOptions& options, std::shared_ptr<StateSpaceParts<T>> parts)
    : shape_(checked_state_space(shape, group, context)),
      group_(group),
      options_(options),
      cut_(state_space_cut(shape_, group)),
      sizes_(state_space_sizes(shape_, cut_)),
      rows_(shape_.sequences * shape_.positions.tokens(GroupPlace(*context).rank)),
      parts_(parts ? std::move(parts) : std::make_shared<StateSpaceParts<T>>(group, context, shape_)),
      in_(group.tensor, "tp", *group.blas, state_space_in(shape_, group, rows_)),
      out_(group, state_space_out(shape_, group, rows_), {.bias = false, .deviation = options.out_deviation}) {
  require_state_space_parts(*parts_, shape_, sizes_);
  const std::int64_t n = inner(), mine = sizes_.group_states(), z = tapped();
  const std::int64_t stored = cut_.key_values_cut ? mine : shape_.groups * shape_.states;
  const std::int64_t first = cut_.key_values_cut ? 0 : cut_.key_values.first * shape_.states;
  x_and_z_ = {.rows = 2 * n, .outputs = {{0, n}, {z, z + n}}, .at = {0, n}};
  states_ = {.rows = 2 * stored,
             .outputs = {{n, n + mine}, {n + mine, n + 2 * mine}},
             .at = {first, stored + first},
             .whole = !cut_.key_values_cut};
  steps_ = {.rows = sizes_.heads, .outputs = {{z + n, z + n + sizes_.heads}}, .at = {0}};
}

template <class T>
void StateSpaceModule<T>::declare(ParameterList& list) {
  const std::int64_t p = shape_.head_width, all = shape_.inner(), states = shape_.groups * shape_.states;
  const Rows heads = cut_.queries, channels{heads.first * p, heads.last * p};
  const Rows of_groups{cut_.key_values.first * shape_.states, cut_.key_values.last * shape_.states};
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, std::size_t dim,
                       const Rows& mine, const InitialRule& rule) {
    const DataParameter whole = whole_parameter(list.like(), shape_.name + name, shape);
    return list.add(cut_along(whole, dim, mine, "tp", GroupPlace(*group_.tensor).ranks), rule);
  };
  const auto add_of_groups = [&](const std::string& name, const std::vector<std::int64_t>& shape,
                                 const InitialRule& rule) {
    if (cut_.key_values_cut) return add(name, shape, 1, of_groups, rule);
    return list.add(whole_parameter(list.like(), shape_.name + name, shape), rule);
  };
  const InitialRule projected = normally_distributed(options_.deviation);
  const InitialRule of_taps = normally_distributed(1 / std::sqrt(static_cast<double>(shape_.taps)));
  x_and_z_.weight = add(".in.weight", {2, all, shape_.width}, 1, channels, projected);
  states_.weight = add_of_groups(".states.weight", {2, states, shape_.width}, projected);
  steps_.weight = add(".step.weight", {shape_.heads, shape_.width}, 0, heads, projected);
  step_bias_ = add(".step.bias", {shape_.heads}, 0, heads, biases_of_steps());
  taps_weight_ = add(".taps.weight", {all, shape_.taps}, 0, channels, of_taps);
  taps_bias_ = add(".taps.bias", {all}, 0, channels, all_equal_to(0));
  state_taps_weight_ = add_of_groups(".state_taps.weight", {2, states, shape_.taps}, of_taps);
  state_taps_bias_ = add_of_groups(".state_taps.bias", {2, states}, all_equal_to(0));
  rates_ = add(".rates", {shape_.heads}, 0, heads, logarithms_of_rates());
  skip_ = add(".skip", {shape_.heads}, 0, heads, all_equal_to(1));
  norm_ = add(".norm.weight", {all}, 0, channels, all_equal_to(1));
  out_.declare(list);
}

template <class T>
typename StateSpaceModule<T>::Vectors StateSpaceModule<T>::vectors(T* all) const noexcept {
  T *const norm = all + 2 * sizes_.heads, *const of_taps = norm + inner();
  return {all, all + sizes_.heads, norm, of_taps, of_taps + tapped() * shape_.taps};
}

template <class T>
template <class F>
void StateSpaceModule<T>::for_each_group(const F& f) const {
  const std::int64_t each = sizes_.heads_each, p = sizes_.head_width;
  for (std::int64_t g = 0; g < sizes_.groups; ++g) {
    const std::int64_t first = g * each - sizes_.heads_before;
    f(g, Rows{std::max<std::int64_t>(first, 0) * p, std::min(first + each, sizes_.heads) * p});
  }
}

template <class T>
PooledArray<T> StateSpaceModule<T>::decay_rates(Pass<T>& pass) const {
  const auto rates = pass.values(rates_);
  PooledArray<T> a = pass.take(sizes_.heads);
  for (std::size_t h = 0; h < a.size(); ++h) a.data()[h] = -std::exp(rates.data()[h]);
  return a;
}

template <class T>
typename StateSpaceModule<T>::Taps StateSpaceModule<T>::taps(Pass<T>& pass) const {
  Taps of{pass.take(tapped() * shape_.taps), pass.take(tapped())};
  const auto gather = [&](std::int32_t of_x, std::int32_t of_states, std::int64_t columns, T* to) {
    const auto x = pass.values(of_x), states = pass.values(of_states);
    std::copy_n(x.data(), inner() * columns, to);
    for (std::size_t i = 0; i < states_.at.size(); ++i)
      std::copy_n(states.data() + states_.at[i] * columns, states_.outputs[i].count() * columns,
                  to + states_.outputs[i].first * columns);
  };
  gather(taps_weight_, state_taps_weight_, shape_.taps, of.weight.data());
  gather(taps_bias_, state_taps_bias_, 1, of.bias.data());
  return of;
}

template <class T>
HeadScanInputs<T> StateSpaceModule<T>::inputs(const Kept<T>& kept, const T* a, const T* skip) const {
  const T* const u = kept.arrays[U].data();
  return {u, kept.arrays[Step].data(), u + inner(), u + inner() + sizes_.group_states(), a, skip, tapped()};
}

template <class T>
void StateSpaceModule<T>::project(Pass<T>& pass, const T* x, Kept<T>& kept) {
  const std::int64_t width = row_width();
  const auto of_x = pass.values(x_and_z_.weight), of_states = pass.values(states_.weight);
  const auto of_steps = pass.values(steps_.weight), bias = pass.values(step_bias_);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  const PooledArray<T> all = pass.take(rows_ * width);
  in_.gather(x, whole.data(), [&](const T* rows, const Rows& here) {
    const auto multiply = [&](const Projection& of, const T* weight, const T* offset) {
      for (std::size_t i = 0; i < of.at.size(); ++i)
        in_.multiply(rows, weight + of.at[i] * shape_.width, offset, here, of.outputs[i], all.data());
    };
    multiply(x_and_z_, of_x.data(), nullptr);
    multiply(states_, of_states.data(), nullptr);
    multiply(steps_, of_steps.data(), bias.data());
  });
  copy_rows(all.data(), width, kept.arrays[In].data(), tapped(), rows_, tapped());
  copy_rows(all.data() + tapped(), width, kept.arrays[Z].data(), inner(), rows_, inner());
  copy_rows(all.data() + tapped() + inner(), width, kept.arrays[RawStep].data(), sizes_.heads, rows_, sizes_.heads);
}

template <class T>
void StateSpaceModule<T>::sum_of_groups(Pass<T>& pass, T* of_groups) {
  if (cut_.key_values_cut) return;
  const PooledArray<T> all = pass.take(rows_ * shape_.groups);
  std::ranges::fill(all, T{0});
  copy_rows(of_groups, sizes_.groups, all.data() + cut_.key_values.first, shape_.groups, rows_, sizes_.groups);
  group_.tensor
      ->all_reduce(std::span<T>(all.data(), all.size()), ReduceOp::Sum, group_.tensor.options("norm of groups"))
      .get();
  copy_rows(all.data() + cut_.key_values.first, shape_.groups, of_groups, sizes_.groups, rows_, sizes_.groups);
}

template <class T>
void StateSpaceModule<T>::normalise(Pass<T>& pass, Kept<T>& kept) {
  const std::int64_t n = inner(), groups = sizes_.groups;
  const T *const y = kept.arrays[Y].data(), *const z = kept.arrays[Z].data();
  T *const normed = kept.arrays[Normed].data(), *const factors = kept.arrays[Factors].data();
  for (std::int64_t i = 0; i < rows_ * n; ++i) normed[i] = y[i] * silu(z[i]);
  for_each_group([&](std::int64_t g, const Rows& channels) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      T sum{0};
      for (std::int64_t i = r * n + channels.first; i < r * n + channels.last; ++i) sum += normed[i] * normed[i];
      factors[r * groups + g] = sum;
    }
  });
  sum_of_groups(pass, factors);
  const auto of_group = static_cast<T>(sizes_.heads_each * sizes_.head_width);
  for (std::int64_t i = 0; i < rows_ * groups; ++i)
    factors[i] = 1 / std::sqrt(factors[i] / of_group + static_cast<T>(shape_.epsilon));
  const auto weight = pass.values(norm_);
  for_each_group([&](std::int64_t g, const Rows& channels) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t i = channels.first; i < channels.last; ++i)
        normed[r * n + i] *= factors[r * groups + g] * weight.data()[i];
    }
  });
}

template <class T>
void StateSpaceModule<T>::normalise_back(Pass<T>& pass, Kept<T>& kept, const T* dnormed, T* of_weight) {
  const std::int64_t n = inner(), groups = sizes_.groups;
  T *const y = kept.arrays[Y].data(), *const z = kept.arrays[Z].data();
  const T* const factors = kept.arrays[Factors].data();
  const auto weight = pass.values(norm_);
  const PooledArray<T> dots = pass.take(rows_ * groups);  // of the gated outputs with the gradients of the normed ones
  for_each_group([&](std::int64_t g, const Rows& channels) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      T sum{0};
      for (std::int64_t i = channels.first; i < channels.last; ++i) {
        const T product = dnormed[r * n + i] * y[r * n + i] * silu(z[r * n + i]);
        of_weight[i] += product * factors[r * groups + g];
        sum += product * weight.data()[i];
      }
      dots.data()[r * groups + g] = sum;
    }
  });
  sum_of_groups(pass, dots.data());
  const auto of_group = static_cast<T>(sizes_.heads_each * sizes_.head_width);
  for_each_group([&](std::int64_t g, const Rows& channels) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const T factor = factors[r * groups + g];
      const T shift = factor * factor * factor * dots.data()[r * groups + g] / of_group;
      for (std::int64_t c = channels.first; c < channels.last; ++c) {
        const std::int64_t i = r * n + c;
        const T gate = silu(z[i]);
        const T of_gated = factor * dnormed[i] * weight.data()[c] - shift * y[i] * gate;
        z[i] = of_gated * y[i] * silu_slope(z[i]);
        y[i] = of_gated * gate;
      }
    }
  });
}

/// The lengths of Kept::arrays, in the order of Array.
template <class T>
std::vector<std::int64_t> StateSpaceModule<T>::kept_lengths() const {
  const std::int64_t wide = rows_ * tapped(), narrow = rows_ * inner(), of_heads = rows_ * sizes_.heads;
  return {wide,
          wide,
          wide,
          narrow,
          narrow,
          narrow,
          of_heads,
          of_heads,
          rows_ * sizes_.groups,
          parts_->taps.kept_elements(),
          parts_->scan.kept_elements()};
}

/// The lengths of Kept::gradients, in the order of Gradient.
template <class T>
std::vector<std::int64_t> StateSpaceModule<T>::gradient_lengths() const {
  return {rows_ * row_width(), 2 * sizes_.heads + inner() + tapped() * (shape_.taps + 1)};
}

template <class T>
ArrayCounts StateSpaceModule<T>::kept_arrays() const {
  return ArrayCounts(kept_lengths()) + out_.kept_arrays();
}

template <class T>
ArrayCounts StateSpaceModule<T>::deferred_arrays() const {
  return ArrayCounts(gradient_lengths()) + out_.deferred_arrays();
}

template <class T>
ArrayCounts StateSpaceModule<T>::forward_arrays(bool /*keeps*/) const {
  const ArrayCounts of_projection{all_rows_elements(), rows_ * row_width()};
  const ArrayCounts of_taps{tapped() * shape_.taps, tapped()};
  return kept_arrays() + most_of(most_of(of_projection, of_taps), out_.forward_arrays(true));
}

template <class T>
ArrayCounts StateSpaceModule<T>::backward_arrays() const {
  const std::vector<std::int64_t> lengths = kept_lengths();
  ArrayCounts freed;
  for (const Array used : kUsedUp) freed += {lengths[used]};
  const ArrayCounts here = kept_arrays() + deferred_arrays();
  const ArrayCounts of_norm = here + ArrayCounts{rows_ * inner(), rows_ * sizes_.groups};
  const ArrayCounts of_scan = here + ArrayCounts{rows_ * tapped(), rows_ * sizes_.heads};
  const ArrayCounts of_taps{tapped() * shape_.taps, tapped()};
  ArrayCounts most = most_of(of_norm, of_scan + of_taps);
  most.raise_to(of_scan - freed + ArrayCounts{in_.partial_rows() * shape_.width});
  most.raise_to(here - freed + ArrayCounts{all_rows_elements()});
  return most;
}

template <class T>
void StateSpaceModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  for (const std::int64_t elements : kept_lengths()) kept.arrays.push_back(pass.take(elements));
  kept.parts.resize(1);
  const auto& of = kept.arrays;
  project(pass, x, kept);
  {
    const Taps by = taps(pass);
    parts_->taps.forward(of[In].data(), by.weight.data(), by.bias.data(), of[Tapped].data(), of[BeforeTaps].data());
  }
  std::ranges::transform(of[Tapped], of[U].data(), silu<T>);
  std::ranges::transform(of[RawStep], of[Step].data(), softplus<T>);
  {
    const PooledArray<T> a = decay_rates(pass);
    const auto skip = pass.values(skip_);
    parts_->scan.forward(inputs(kept, a.data(), skip.data()), of[Y].data(), of[BeforeScan].data());
  }
  normalise(pass, kept);
  out_.forward(pass, of[Normed].data(), kept.parts[0], out);
}

template <class T>
void StateSpaceModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const std::int64_t width = row_width();
  auto& of = kept.arrays;
  kept.gradients.clear();
  for (const std::int64_t elements : gradient_lengths()) kept.gradients.push_back(pass.take(elements));
  std::ranges::fill(kept.gradients[OfVectors], T{0});
  T* const of_in = kept.gradients[OfIn].data();
  const Vectors sums = vectors(kept.gradients[OfVectors].data());
  {
    const PooledArray<T> dnormed = pass.take(rows_ * inner());
    out_.input_gradient(pass, of[Normed].data(), kept.parts[0], dout, dnormed.data());
    normalise_back(pass, kept, dnormed.data(), sums.norm);
  }
  const PooledArray<T> du = pass.take(rows_ * tapped()), dt = pass.take(rows_ * sizes_.heads);
  {
    const PooledArray<T> a = decay_rates(pass);
    const auto skip = pass.values(skip_);
    T *const db = du.data() + inner(), *const dc = db + sizes_.group_states();
    parts_->scan.backward(inputs(kept, a.data(), skip.data()), of[BeforeScan].data(), of[Y].data(),
                          {du.data(), dt.data(), db, dc, sums.rates, sums.skip});
    for (std::size_t h = 0; h < a.size(); ++h) sums.rates[h] *= a.data()[h];  // a = -exp(rates)
  }
  for (std::size_t i = 0; i < dt.size(); ++i) dt.data()[i] *= sigmoid(of[RawStep].data()[i]);
  for (std::size_t i = 0; i < du.size(); ++i) du.data()[i] *= silu_slope(of[Tapped].data()[i]);
  T* const of_tapped = of[U].data();
  {
    const Taps by = taps(pass);
    parts_->taps.backward(of[In].data(), of[BeforeTaps].data(), by.weight.data(), du.data(), of_tapped, sums.taps,
                          sums.taps_bias);
  }
  copy_rows(of_tapped, tapped(), of_in, width, rows_, tapped());
  copy_rows(of[Z].data(), inner(), of_in + tapped(), width, rows_, inner());
  copy_rows(dt.data(), sizes_.heads, of_in + tapped() + inner(), width, rows_, sizes_.heads);
  for (const Array used : kUsedUp) of[used] = PooledArray<T>{};
  if (dx != nullptr) project_back(pass, of_in, dx);
}

template <class T>
void StateSpaceModule<T>::project_back(Pass<T>& pass, const T* of_in, T* dx) {
  const PooledArray<T> partial = pass.take(in_.partial_rows() * shape_.width);
  const auto of_x = pass.values(x_and_z_.weight), of_states = pass.values(states_.weight);
  const auto of_steps = pass.values(steps_.weight);
  const auto add_back = [&](const Rows& here, T* to) {
    T beta{0};
    const auto multiply = [&](const Projection& of, const T* weight) {
      for (std::size_t i = 0; i < of.at.size(); ++i)
        in_.multiply_back(of_in, weight + of.at[i] * shape_.width, here, of.outputs[i], std::exchange(beta, T{1}), to);
    };
    multiply(x_and_z_, of_x.data());
    multiply(states_, of_states.data());
    multiply(steps_, of_steps.data());
  };
  in_.sum(add_back, partial.data(), dx).get();
}

/// gradient(i, beta, to): that of the rows of outputs[i], `columns` elements each.
template <class T>
void StateSpaceModule<T>::add_gradient(Pass<T>& pass, const Projection& of, std::int32_t parameter,
                                       std::int64_t columns, const std::function<void(std::size_t, T, T*)>& gradient) {
  const auto write = [&](T* to, T beta) {
    for (std::size_t i = 0; i < of.at.size(); ++i) gradient(i, beta, to + of.at[i] * columns);
  };
  if (!of.whole) {
    pass.add_gradient(parameter, write);
    return pass.ready(parameter);
  }
  add_replicated_gradient<T>(pass, parameter, of.rows * columns, &*group_.tensor, [&](T* to) {
    std::fill_n(to, of.rows * columns, T{0});  // of groups that this rank has no heads of
    write(to, T{0});
  });
}

template <class T>
void StateSpaceModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  out_.weight_gradient(pass, kept.arrays[Normed].data(), kept.parts[0], dout);
  const Vectors sums = vectors(kept.gradients[OfVectors].data());
  const T* const of_in = kept.gradients[OfIn].data();
  const auto add_vector = [&](std::int32_t parameter, const T* from, std::int64_t elements) {
    pass.add_gradient(parameter, [&](T* to, T beta) { sum_rows(from, 1, elements, elements, beta, to); });
    pass.ready(parameter);
  };
  add_vector(norm_, sums.norm, inner());
  add_vector(rates_, sums.rates, sizes_.heads);
  add_vector(skip_, sums.skip, sizes_.heads);
  const auto add_taps = [&](std::int32_t of_x, std::int32_t of_states, const T* from, std::int64_t columns) {
    add_vector(of_x, from, inner() * columns);
    add_gradient(pass, states_, of_states, columns, [&](std::size_t i, T beta, T* to) {
      const std::int64_t elements = states_.outputs[i].count() * columns;
      sum_rows(from + states_.outputs[i].first * columns, 1, elements, elements, beta, to);
    });
  };
  add_taps(taps_weight_, state_taps_weight_, sums.taps, shape_.taps);
  add_taps(taps_bias_, state_taps_bias_, sums.taps_bias, 1);

  const PooledArray<T> whole = pass.take(all_rows_elements());
  if (group_.sequence_parallel) in_.begin_gather(x, whole.data()).get();
  const T* const all_rows = group_.sequence_parallel ? whole.data() : x;
  add_gradient(pass, steps_, step_bias_, 1,
               [&](std::size_t i, T beta, T* to) { in_.bias_gradient(of_in, steps_.outputs[i], beta, to); });
  for (const Projection* of : {&steps_, &states_, &x_and_z_})
    add_gradient(pass, *of, of->weight, shape_.width,
                 [&](std::size_t i, T beta, T* to) { in_.weight_gradient(all_rows, of_in, of->outputs[i], beta, to); });
  kept.gradients.clear();
}

template struct StateSpaceParts<float>;
template struct StateSpaceParts<double>;
template class StateSpaceModule<float>;
template class StateSpaceModule<double>;

}  // namespace sinew::parallel
