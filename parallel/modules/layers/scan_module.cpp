#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/compute/vector_kernels.hpp>
#include <sinew/parallel/modules/layers/gates.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>

namespace sinew::parallel {
namespace {

constexpr double kLeastStep = 1e-3, kMostStep = 0.1;
constexpr std::int64_t kWidthOfStepRank = 16;

/// The shape with its defaults filled in. The checks have the same result on all ranks.
ScanShape checked_scan(ScanShape shape, const LayerGroup& group, const CallGroup& context) {
  if (shape.channels == 0) shape.channels = 2 * shape.width;
  if (shape.step_rank == 0) shape.step_rank = (shape.width + kWidthOfStepRank - 1) / kWidthOfStepRank;
  const int ranks = GroupPlace(*group.tensor).ranks, context_ranks = GroupPlace(*context).ranks;
  if (std::min({shape.width, shape.channels, shape.step_rank, shape.states, shape.taps, shape.sequences}) < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("scan '{}': width {}, channels {}, step rank {}, states {}, taps {}, sequences {}, "
                            "expected 1 or more of each",
                            shape.name, shape.width, shape.channels, shape.step_rank, shape.states, shape.taps,
                            shape.sequences));
  if (shape.channels < ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("scan '{}': {} channels for {} tensor-parallel ranks, expected one or more for each rank",
                            shape.name, shape.channels, ranks));
  if (shape.positions.ranks() != context_ranks)
    throw Error(Code::InvalidArgument,
                fmt::format("scan '{}': positions are cut over {} ranks, expected {}, those of the context group",
                            shape.name, shape.positions.ranks(), context_ranks));
  return shape;
}

Rows scan_channels(const ScanShape& shape, const LayerGroup& group) {
  const GroupPlace place(*group.tensor);
  return rows_of({}, place.rank, place.ranks, shape.channels);
}

ScanSizes scan_sizes(const ScanShape& shape, const LayerGroup& group) {
  return {shape.sequences, scan_channels(shape, group).count(), shape.states};
}

LinearShape scan_linear(const ScanShape& shape, const char* name, std::int64_t rows, std::int64_t inputs,
                        std::int64_t outputs) {
  return {.name = shape.name + name, .rows = rows, .inputs = inputs, .outputs = outputs};
}

/// x and z of each rank lie side by side.
LinearShape scan_in(const ScanShape& shape, const LayerGroup& group, std::int64_t rows) {
  LinearShape of = group.with_rows(scan_linear(shape, ".in", rows, shape.width, 2 * shape.channels));
  of.cut.offsets.push_back(0);
  const int ranks = GroupPlace(*group.tensor).ranks;
  for (int r = 0; r < ranks; ++r) of.cut.offsets.push_back(2 * rows_of({}, r, ranks, shape.channels).last);
  return of;
}

/// The scan's inputs are of all rows, whatever rows a rank has between layers.
LayerGroup with_all_rows(LayerGroup group) {
  group.sequence_parallel = false;
  return group;
}

template <class T>
void require_parts(const ScanParts<T>& parts, const ScanShape& shape, const ScanSizes& sizes) {
  if (parts.sizes != sizes || parts.width_of_taps != shape.taps)
    throw Error(Code::InvalidArgument,
                fmt::format("scan '{}': parts for {} sequences of {} channels with {} states and {} taps, expected {}, "
                            "{}, {} and {}",
                            shape.name, parts.sizes.sequences, parts.sizes.channels, parts.sizes.states,
                            parts.width_of_taps, sizes.sequences, sizes.channels, sizes.states, shape.taps));
  if (parts.positions != shape.positions)
    throw Error(Code::InvalidArgument,
                fmt::format("scan '{}': parts for positions that are cut in another way, expected those of the layer",
                            shape.name));
}

double spread_of(std::int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

InitialRule logarithms_of_states(std::int64_t states) {
  return [states](const KeyedRandom&, std::int64_t k) { return std::log(static_cast<double>(1 + k % states)); };
}

}  // namespace

InitialRule biases_of_steps() {
  return [](const KeyedRandom& random, std::int64_t k) {
    const double step =
        kLeastStep * std::exp(random.uniform(static_cast<std::uint64_t>(k)) * std::log(kMostStep / kLeastStep));
    return step + std::log(-std::expm1(-step));
  };
}

template <class T>
ScanParts<T>::ScanParts(const LayerGroup& group, CallGroup context, const ScanShape& shape)
    : sizes(scan_sizes(checked_scan(shape, group, context), group)),
      width_of_taps(shape.taps),
      positions(shape.positions),
      taps(context, {sizes.sequences, sizes.channels, shape.taps}, shape.positions),
      scan(context, sizes, shape.positions) {}

template <class T>
ScanModule<T>::ScanModule(const LayerGroup& group, CallGroup context, const ScanShape& shape,
                          const ScanOptions& options, std::shared_ptr<ScanParts<T>> parts)
    : shape_(checked_scan(shape, group, context)),
      group_(group),
      options_(options),
      channels_(scan_channels(shape_, group)),
      rows_(shape_.sequences * shape_.positions.tokens(GroupPlace(*context).rank)),
      parts_(parts ? std::move(parts) : std::make_shared<ScanParts<T>>(group, context, shape_)),
      in_(group.tensor, "tp", *group.blas, scan_in(shape_, group, rows_)),
      dynamics_(with_all_rows(group), scan_linear(shape_, ".dynamics", rows_, shape_.channels, dynamics_width()),
                {.bias = false, .deviation = spread_of(shape_.channels)}),
      out_(group, scan_linear(shape_, ".out", rows_, shape_.channels, shape_.width),
           {.bias = false, .deviation = options.out_deviation}),
      sum_dynamics_(group.tensor, "copy backward", "tp",
                    {"gradient of " + shape_.name + ".dynamics", dtype_of_layer<T>(), {rows_, dynamics_width()}, {}},
                    Partial{}, Replicate{}) {
  require_parts(*parts_, shape_, scan_sizes(shape_, group));
}

template <class T>
void ScanModule<T>::declare(ParameterList& list) {
  const std::int64_t channels = shape_.channels;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, std::size_t dim, InitialRule rule) {
    return list.add(cut_along(whole_parameter(list.like(), shape_.name + name, std::move(shape)), dim, channels_, "tp",
                              GroupPlace(*group_.tensor).ranks),
                    std::move(rule));
  };
  in_weight_ = add(".in.weight", {2, channels, shape_.width}, 1, normally_distributed(options_.deviation));
  taps_weight_ = add(".taps.weight", {channels, shape_.taps}, 0, normally_distributed(spread_of(shape_.taps)));
  taps_bias_ = add(".taps.bias", {channels}, 0, all_equal_to(0));
  dynamics_.declare(list);
  step_weight_ =
      add(".step.weight", {channels, shape_.step_rank}, 0, normally_distributed(spread_of(shape_.step_rank)));
  step_bias_ = add(".step.bias", {channels}, 0, biases_of_steps());
  rates_ = add(".rates", {channels, shape_.states}, 0, logarithms_of_states(shape_.states));
  skip_ = add(".skip", {channels}, 0, all_equal_to(1));
  out_.declare(list);
}

/// The lengths of Kept::arrays, in the order of Array.
template <class T>
std::vector<std::int64_t> ScanModule<T>::kept_lengths() const {
  std::vector<std::int64_t> lengths(Gated + 1, wide());
  lengths.insert(lengths.end(), {rows_ * shape_.step_rank, rows_ * shape_.states, rows_ * shape_.states,
                                 parts_->taps.kept_elements(), parts_->scan.kept_elements()});
  return lengths;
}

/// The lengths of Kept::gradients, in the order of Gradient.
template <class T>
std::vector<std::int64_t> ScanModule<T>::gradient_lengths() const {
  return {2 * wide(), wide(), rows_ * dynamics_width(), channels_.count() * (shape_.states + 1 + shape_.taps + 1)};
}

template <class T>
ArrayCounts ScanModule<T>::kept_arrays() const {
  return ArrayCounts(kept_lengths()) + dynamics_.kept_arrays() + out_.kept_arrays();
}

template <class T>
ArrayCounts ScanModule<T>::deferred_arrays() const {
  return ArrayCounts(gradient_lengths()) + dynamics_.deferred_arrays() + out_.deferred_arrays();
}

template <class T>
ArrayCounts ScanModule<T>::forward_arrays(bool /*keeps*/) const {
  const ArrayCounts of_projection{all_rows_elements(), 2 * wide()};
  const ArrayCounts of_dynamics = ArrayCounts{rows_ * dynamics_width()} + dynamics_.forward_arrays(true);
  const ArrayCounts of_output = ArrayCounts{channels_.count() * shape_.states} + out_.forward_arrays(true);
  return kept_arrays() + most_of(most_of(of_projection, of_dynamics), of_output);
}

template <class T>
ArrayCounts ScanModule<T>::backward_arrays() const {
  const std::vector<std::int64_t> lengths = kept_lengths();
  ArrayCounts freed;
  for (const Array used : kUsedUp) freed += {lengths[used]};
  const std::int64_t states = rows_ * shape_.states;
  const ArrayCounts here = kept_arrays() + deferred_arrays();
  const ArrayCounts of_scan = here + ArrayCounts{wide(), states, states, channels_.count() * shape_.states};
  const ArrayCounts last{in_.partial_rows() * shape_.width};
  return most_of(most_of(of_scan + ArrayCounts{wide()}, of_scan - freed + last),
                 here - freed + ArrayCounts{all_rows_elements()});
}

template <class T>
PooledArray<T> ScanModule<T>::decay_rates(Pass<T>& pass) const {
  const auto rates = pass.values(rates_);
  PooledArray<T> a = pass.take(channels_.count() * shape_.states);
  for (std::size_t i = 0; i < a.size(); ++i) a.data()[i] = -std::exp(rates.data()[i]);
  return a;
}

template <class T>
ScanInputs<T> ScanModule<T>::inputs(const Kept<T>& kept, const T* a, const T* skip) const {
  const auto& of = kept.arrays;
  return {of[U].data(), of[Step].data(), of[B].data(), of[C].data(), a, skip};
}

template <class T>
void ScanModule<T>::project(Pass<T>& pass, const T* x, Kept<T>& kept) {
  const std::int64_t n = channels_.count();
  const auto weight = pass.values(in_weight_);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  const PooledArray<T> both = pass.take(2 * wide());
  in_.gather(x, whole.data(), [&](const T* all, const Rows& here) {
    for (const Rows& half : {Rows{0, n}, Rows{n, 2 * n}})
      in_.multiply(all, weight.data() + half.first * shape_.width, nullptr, here, half, both.data());
  });
  copy_rows(both.data(), 2 * n, kept.arrays[X].data(), n, rows_, n);
  copy_rows(both.data() + n, 2 * n, kept.arrays[Z].data(), n, rows_, n);
}

template <class T>
void ScanModule<T>::find_dynamics(Pass<T>& pass, Kept<T>& kept) {
  const std::int64_t width = dynamics_width(), n = channels_.count(), rank = shape_.step_rank, states = shape_.states;
  const auto& of = kept.arrays;
  const PooledArray<T> all = pass.take(rows_ * width);
  dynamics_.forward(pass, of[U].data(), kept.parts[Dynamics], all.data());
  copy_rows(all.data(), width, of[Low].data(), rank, rows_, rank);
  copy_rows(all.data() + rank, width, of[B].data(), states, rows_, states);
  copy_rows(all.data() + rank + states, width, of[C].data(), states, rows_, states);
  const int e = as_int(n), r = as_int(rank);
  const auto weight = pass.values(step_weight_), bias = pass.values(step_bias_);
  group_.blas->multiply({.b_transposed = true, .m = as_int(rows_), .n = e, .k = r, .la = r, .lb = r, .lc = e}, T{1},
                        of[Low].data(), weight.data(), T{0}, of[RawStep].data());
  add_to_rows(bias.data(), rows_, n, n, of[RawStep].data());
  std::ranges::transform(of[RawStep], of[Step].data(), softplus<T>);
}

template <class T>
void ScanModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) {
  for (const std::int64_t elements : kept_lengths()) kept.arrays.push_back(pass.take(elements));
  kept.parts.resize(2);
  const auto& of = kept.arrays;
  project(pass, x, kept);
  const auto taps = pass.values(taps_weight_), bias = pass.values(taps_bias_), skip = pass.values(skip_);
  parts_->taps.forward(of[X].data(), taps.data(), bias.data(), of[Tapped].data(), of[BeforeTaps].data());
  std::ranges::transform(of[Tapped], of[U].data(), silu<T>);
  find_dynamics(pass, kept);
  const PooledArray<T> a = decay_rates(pass);
  parts_->scan.forward(inputs(kept, a.data(), skip.data()), of[Y].data(), of[BeforeScan].data());
  for (std::size_t i = 0; i < of[Y].size(); ++i) of[Gated].data()[i] = of[Y].data()[i] * silu(of[Z].data()[i]);
  out_.forward(pass, of[Gated].data(), kept.parts[Out], out);
}

template <class T>
void ScanModule<T>::dynamics_backward(Pass<T>& pass, Kept<T>& kept, const T* db, const T* dc, T* du) {
  const std::int64_t width = dynamics_width(), rank = shape_.step_rank, states = shape_.states;
  T *const of_raw = kept.gradients[OfRawStep].data(), *const all = kept.gradients[OfDynamics].data();
  for (std::int64_t i = 0; i < wide(); ++i) of_raw[i] *= sigmoid(kept.arrays[RawStep].data()[i]);
  const int e = as_int(channels_.count()), r = as_int(rank);
  const auto weight = pass.values(step_weight_);
  group_.blas->multiply({.m = as_int(rows_), .n = r, .k = e, .la = e, .lb = r, .lc = as_int(width)}, T{1}, of_raw,
                        weight.data(), T{0}, all);
  copy_rows(db, states, all + rank, width, rows_, states);
  copy_rows(dc, states, all + rank + states, width, rows_, states);
  const Buffer sum = elements_of(all, rows_ * width);
  sum_dynamics_.run({Partial{}, sum}, sum);
  const PooledArray<T> added = pass.take(wide());
  dynamics_.input_gradient(pass, kept.arrays[U].data(), kept.parts[Dynamics], all, added.data());
  kernels::add(du, added.data(), added.size());
}

template <class T>
void ScanModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  const std::int64_t n = channels_.count(), states = rows_ * shape_.states;
  auto& of = kept.arrays;
  kept.gradients.clear();
  for (const std::int64_t elements : gradient_lengths()) kept.gradients.push_back(pass.take(elements));
  const auto skip = pass.values(skip_), taps = pass.values(taps_weight_);
  T* const of_rates = kept.gradients[OfVectors].data();
  T *const of_skip = of_rates + n * shape_.states, *const of_taps = of_skip + n;
  std::ranges::fill(kept.gradients[OfVectors], T{0});

  const PooledArray<T> du = pass.take(wide());  // first the gradient of the gated outputs
  out_.input_gradient(pass, of[Gated].data(), kept.parts[Out], dout, du.data());
  T *const y = of[Y].data(), *const z = of[Z].data();
  for (std::size_t i = 0; i < du.size(); ++i) {
    const T slope = du.data()[i] * y[i] * silu_slope(z[i]);
    y[i] = du.data()[i] * silu(z[i]);
    z[i] = slope;
  }
  const PooledArray<T> db = pass.take(states), dc = pass.take(states);
  const PooledArray<T> a = decay_rates(pass);
  parts_->scan.backward(inputs(kept, a.data(), skip.data()), of[BeforeScan].data(), y,
                        {du.data(), kept.gradients[OfRawStep].data(), db.data(), dc.data(), of_rates, of_skip});
  for (std::size_t i = 0; i < a.size(); ++i) of_rates[i] *= a.data()[i];  // a = -exp(rates)
  dynamics_backward(pass, kept, db.data(), dc.data(), du.data());

  for (std::size_t i = 0; i < du.size(); ++i) du.data()[i] *= silu_slope(of[Tapped].data()[i]);
  T *const of_x = y, *const of_in = kept.gradients[OfIn].data();
  parts_->taps.backward(of[X].data(), of[BeforeTaps].data(), taps.data(), du.data(), of_x, of_taps,
                        of_taps + n * shape_.taps);
  copy_rows(of_x, n, of_in, 2 * n, rows_, n);
  copy_rows(z, n, of_in + n, 2 * n, rows_, n);
  for (const Array used : kUsedUp) of[used] = PooledArray<T>{};
  if (dx == nullptr) return;
  const PooledArray<T> partial = pass.take(in_.partial_rows() * shape_.width);
  const auto weight = pass.values(in_weight_);
  const auto add_back = [&](const Rows& here, T* to) {
    in_.multiply_back(of_in, weight.data(), here, {0, n}, T{0}, to);
    in_.multiply_back(of_in, weight.data() + n * shape_.width, here, {n, 2 * n}, T{1}, to);
  };
  in_.sum(add_back, partial.data(), dx).get();
}

template <class T>
void ScanModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  const std::int64_t n = channels_.count();
  const T* vectors = kept.gradients[OfVectors].data();
  const T *of_raw = kept.gradients[OfRawStep].data(), *of_in = kept.gradients[OfIn].data();
  out_.weight_gradient(pass, kept.arrays[Gated].data(), kept.parts[Out], dout);
  const auto add = [&](std::int32_t parameter, const auto& write) {
    pass.add_gradient(parameter, write);
    pass.ready(parameter);
  };
  const auto add_vector = [&](std::int32_t parameter, std::int64_t elements) {
    const T* const from = std::exchange(vectors, vectors + elements);
    add(parameter, [&](T* to, T beta) { sum_rows(from, 1, elements, elements, beta, to); });
  };
  add_vector(rates_, n * shape_.states);
  add_vector(skip_, n);
  add(step_bias_, [&](T* to, T beta) { sum_rows(of_raw, rows_, n, n, beta, to); });
  const int e = as_int(n), r = as_int(shape_.step_rank);
  add(step_weight_, [&](T* to, T beta) {
    group_.blas->multiply({.a_transposed = true, .m = e, .n = r, .k = as_int(rows_), .la = e, .lb = r, .lc = r}, T{1},
                          of_raw, kept.arrays[Low].data(), beta, to);
  });
  dynamics_.weight_gradient(pass, kept.arrays[U].data(), kept.parts[Dynamics], kept.gradients[OfDynamics].data());
  add_vector(taps_weight_, n * shape_.taps);
  add_vector(taps_bias_, n);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  if (group_.sequence_parallel) in_.begin_gather(x, whole.data()).get();
  const T* const all_rows = group_.sequence_parallel ? whole.data() : x;
  add(in_weight_, [&](T* to, T beta) {
    in_.weight_gradient(all_rows, of_in, {0, n}, beta, to);
    in_.weight_gradient(all_rows, of_in, {n, 2 * n}, beta, to + n * shape_.width);
  });
  kept.gradients.clear();
}

template struct ScanParts<float>;
template struct ScanParts<double>;
template class ScanModule<float>;
template class ScanModule<double>;

}  // namespace sinew::parallel
