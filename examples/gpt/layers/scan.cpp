#include "scan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/common/matrix.hpp>

#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {
namespace {

namespace sp = sinew::parallel;

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T silu(T x) {
  return x * sigmoid(x);
}
template <class T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (1 + x * (1 - s));
}
template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
}

std::int64_t dynamics_width(const Shape& shape) { return shape.step_rank() + 2 * kScanStates; }

/// x and z of each rank lie together.
sp::LinearShape in_shape(const BlockShape& shape, const std::string& name) {
  sp::LinearShape of = shape.linear(name, shape.whole.width, 2 * shape.whole.channels());
  Part part = shape.part;
  of.cut.offsets.push_back(0);
  for (part.rank = 0; part.rank < part.ranks; ++part.rank)
    of.cut.offsets.push_back(2 * part.channels(shape.whole).last);
  return of;
}

std::vector<ColumnPart> in_parts(const BlockShape& shape, int weight) {
  const std::int64_t mine = shape.part.channels(shape.whole).count();
  return {{weight, -1, 2 * mine, 0, mine}, {weight, -1, 2 * mine, mine, mine}};
}

/// All rows on every rank: they go through the scan.
sp::LinearShape dynamics_shape(const BlockShape& shape, const std::string& name) {
  return {name, shape.rows(), shape.whole.channels(), dynamics_width(shape.whole)};
}

sp::ScanSizes scan_sizes(const BlockShape& shape) {
  return {shape.sequences, shape.part.channels(shape.whole).count(), kScanStates};
}
sp::ConvolutionSizes taps_sizes(const BlockShape& shape) {
  return {shape.sequences, shape.part.channels(shape.whole).count(), kScanTaps};
}

template <class T>
sp::Exchange sum_of_gradients(const BlockShape& shape, sinew::Communicator& group, const std::string& name) {
  return {
      group,
      "copy backward",
      "tp",
      sp::TensorSpec{"gradient of " + name, sp::dtype_of_layer<T>(), {shape.rows(), dynamics_width(shape.whole)}, {}},
      sp::Partial{},
      sp::Replicate{}};
}

/// Columns [first, first + columns) of rows of `width`, from or to rows of their own.
template <class T>
void take_columns(const T* from, std::int64_t rows, std::int64_t width, std::int64_t first, std::int64_t columns,
                  T* to) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * width + first, columns, to + r * columns);
}
template <class T>
void put_columns(const T* from, std::int64_t rows, std::int64_t width, std::int64_t first, std::int64_t columns,
                 T* to) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(from + r * columns, columns, to + r * width + first);
}

}  // namespace

template <class T>
ScanParts<T>::ScanParts(const BlockShape& shape, sinew::Communicator& ring)
    : taps(ring, taps_sizes(shape), shape.part.positions(shape.whole)),
      scan(ring, scan_sizes(shape), shape.part.positions(shape.whole)) {}

template <class T>
std::int64_t ScanParts<T>::room_for(const BlockShape& shape) {
  const sp::SequenceCut cut = shape.part.positions(shape.whole);
  return sp::CausalConvolution<T>::room_for(taps_sizes(shape), cut, shape.part.context_rank) +
         sp::StateScan<T>::room_for(scan_sizes(shape), cut, shape.part.context_rank);
}

template <class T>
struct ScanMixer<T>::Vectors {
  Vectors(Store& store, Weights<T>& weights, int first, std::int64_t channels)
      : room(static_cast<std::size_t>(channels * (kScanTaps + 3 + kScanStates))), a(room.data()) {
    const auto n = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    std::span<T> rest(room);
    const auto take = [&](int p, std::int64_t count) {
      const std::span<T> into = rest.first(n(count));
      rest = rest.subspan(n(count));
      const T* from = weights.vector(store, first + p, into);
      if (from != into.data()) std::copy_n(from, count, into.data());
      return into.data();
    };
    a = take(kScanRates, channels * kScanStates);
    for (std::int64_t i = 0; i < channels * kScanStates; ++i) a[i] = -std::exp(a[i]);
    taps = take(kScanTapsWeight, channels * kScanTaps);
    taps_bias = take(kScanTapsBias, channels);
    step_bias = take(kScanStepBias, channels);
    skip = take(kScanSkip, channels);
  }

  std::vector<T> room;
  T *a, *taps = nullptr, *taps_bias = nullptr, *step_bias = nullptr, *skip = nullptr;
};

template <class T>
ScanMixer<T>::ScanMixer(const BlockShape& shape, int number, sinew::Communicator& group, Blas& blas,
                        ScanParts<T>& parts)
    : shape_(shape),
      rows_(shape.rows()),
      channels_(shape.part.channels(shape.whole).count()),
      step_rank_(shape.whole.step_rank()),
      first_(block_parameters(shape.whole, number).mixer),
      group_(&group),
      blas_(&blas),
      parts_(&parts),
      in_(group, blas, in_shape(shape, fmt::format("blocks.{}.scan.in", number)),
          in_parts(shape, first_ + kScanInWeight)),
      dynamics_(group, blas, dynamics_shape(shape, fmt::format("blocks.{}.scan.dynamics", number)),
                first_ + kScanDynamicsWeight, -1, Replicated<T>{}, false),
      out_(group, blas,
           shape.linear(fmt::format("blocks.{}.scan.out", number), shape.whole.channels(), shape.whole.width),
           first_ + kScanOutWeight, -1, Replicated<T>{}, false),
      sum_dynamics_(sum_of_gradients<T>(shape, group, fmt::format("blocks.{}.scan.dynamics", number))) {}

template <class T>
std::int64_t ScanMixer<T>::row_of(const BlockShape& shape) {
  return 2 * (shape.part.channels(shape.whole).count() + dynamics_width(shape.whole));
}

template <class T>
std::size_t ScanMixer<T>::kept_for(const BlockShape& shape) {
  const sp::SequenceCut cut = shape.part.positions(shape.whole);
  const int rank = shape.part.context_rank;
  const std::int64_t own = shape.rows() * (8 * shape.part.channels(shape.whole).count() + dynamics_width(shape.whole));
  return static_cast<std::size_t>(own + sp::CausalConvolution<T>::kept_for(taps_sizes(shape), cut, rank) +
                                  sp::StateScan<T>::kept_for(scan_sizes(shape), cut, rank));
}

template <class T>
std::int64_t ScanMixer<T>::deferred_for(const BlockShape& shape) {
  const std::int64_t channels = shape.part.channels(shape.whole).count();
  return shape.rows() * (4 * channels + shape.whole.width + dynamics_width(shape.whole));
}

template <class T>
std::size_t ScanMixer<T>::kept_elements() const {
  return kept_for(shape_);
}

template <class T>
typename ScanMixer<T>::Kept ScanMixer<T>::of(std::span<T> kept) const {
  T* at = kept.data();
  const auto take = [&](std::int64_t count) { return std::exchange(at, at + count); };
  const std::int64_t wide = rows_ * channels_, states = rows_ * kScanStates;
  Kept k{};
  for (T** of : {&k.x, &k.z, &k.tapped, &k.u, &k.raw_dt, &k.dt, &k.y, &k.gated}) *of = take(wide);
  k.low = take(rows_ * step_rank_);
  k.b = take(states);
  k.c = take(states);
  k.before_taps = take(parts_->taps.kept_elements());
  k.before_scan = take(parts_->scan.kept_elements());
  return k;
}

template <class T>
sp::ScanInputs<T> ScanMixer<T>::inputs(const Kept& k, const Vectors& v) const {
  return {k.u, k.dt, k.b, k.c, v.a, v.skip};
}

template <class T>
void ScanMixer<T>::find_dynamics(Store& store, Weights<T>& weights, const Kept& k, const Vectors& v, T* room) {
  const std::int64_t width = dynamics_width(shape_.whole);
  dynamics_.forward(store, weights, k.u, nullptr, room);
  take_columns(room, rows_, width, 0, step_rank_, k.low);
  take_columns(room, rows_, width, step_rank_, kScanStates, k.b);
  take_columns(room, rows_, width, step_rank_ + kScanStates, kScanStates, k.c);
  const int e = sp::as_int(channels_), r = sp::as_int(step_rank_);
  blas_->multiply({.b_transposed = true, .m = sp::as_int(rows_), .n = e, .k = r, .la = r, .lb = r, .lc = e}, T{1},
                  k.low, weights.matrix(store, first_ + kScanStepWeight), T{0}, k.raw_dt);
  sp::add_to_rows(v.step_bias, rows_, channels_, channels_, k.raw_dt);
  for (std::int64_t i = 0; i < rows_ * channels_; ++i) k.dt[i] = softplus(k.raw_dt[i]);
}

template <class T>
void ScanMixer<T>::forward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept,
                           const BlockScratch<T>& scratch, T* out) {
  const Kept k = of(kept);
  const Vectors v(store, weights, first_, channels_);
  const std::int64_t wide = rows_ * channels_;
  T* room = scratch.wide.data();
  in_.forward(store, weights, x, scratch.gathered.data(), room);
  take_columns(room, rows_, 2 * channels_, 0, channels_, k.x);
  take_columns(room, rows_, 2 * channels_, channels_, channels_, k.z);
  parts_->taps.forward(k.x, v.taps, v.taps_bias, k.tapped, k.before_taps);
  for (std::int64_t i = 0; i < wide; ++i) k.u[i] = silu(k.tapped[i]);
  find_dynamics(store, weights, k, v, room);
  parts_->scan.forward(inputs(k, v), k.y, k.before_scan);
  for (std::int64_t i = 0; i < wide; ++i) k.gated[i] = k.y[i] * silu(k.z[i]);
  out_.forward(store, weights, k.gated, scratch.other.data(), out);
}

template <class T>
void ScanMixer<T>::dynamics_backward(Store& store, Weights<T>& weights, const Kept& k, const T* db, T* room, T* du) {
  const std::int64_t width = dynamics_width(shape_.whole), wide = rows_ * channels_, states = rows_ * kScanStates;
  const int n = sp::as_int(rows_), e = sp::as_int(channels_), r = sp::as_int(step_rank_);
  T *of_raw = k.z, *of_all = room + wide;
  for (std::int64_t i = 0; i < wide; ++i) of_raw[i] *= sigmoid(k.raw_dt[i]);
  blas_->multiply({.m = n, .n = r, .k = e, .la = e, .lb = r, .lc = sp::as_int(width)}, T{1}, of_raw,
                  weights.matrix(store, first_ + kScanStepWeight), T{0}, of_all);
  put_columns(db, rows_, width, step_rank_, kScanStates, of_all);
  put_columns(db + states, rows_, width, step_rank_ + kScanStates, kScanStates, of_all);
  const auto all = sp::elements_of(of_all, rows_ * width);
  sum_dynamics_.run({sp::Partial{}, all}, all);
  weights.add_gradient(store, first_ + kScanStepBias, static_cast<std::size_t>(channels_),
                       [&](T* to, T beta) { sp::sum_rows(of_raw, rows_, channels_, channels_, beta, to); });
  store.gradient_ready(first_ + kScanStepBias);
  weights.add_gradient(store, first_ + kScanStepWeight, static_cast<std::size_t>(channels_ * step_rank_),
                       [&](T* to, T beta) {
                         blas_->multiply({.a_transposed = true, .m = e, .n = r, .k = n, .la = e, .lb = r, .lc = r},
                                         T{1}, of_raw, k.low, beta, to);
                       });
  store.gradient_ready(first_ + kScanStepWeight);
  dynamics_.backward(store, weights, k.u, of_all, nullptr, room);
  add(du, room, static_cast<std::size_t>(wide));
}

template <class T>
void ScanMixer<T>::backward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const T* d,
                            const BlockScratch<T>& scratch) {
  const Kept k = of(kept);
  const Vectors v(store, weights, first_, channels_);
  const std::int64_t wide = rows_ * channels_, states = rows_ * kScanStates;
  T *du = scratch.wide.data(), *room = du + wide, *db = room + wide + rows_ * dynamics_width(shape_.whole);
  T *gathered = scratch.gathered.data(), *other = scratch.other.data();
  const auto n = [](std::int64_t i) { return static_cast<std::size_t>(i); };

  T* of_gated = du;
  out_.backward(store, weights, k.gated, d, gathered, of_gated);
  for (std::int64_t i = 0; i < wide; ++i) {
    k.gated[i] = of_gated[i] * k.y[i] * silu_slope(k.z[i]);  // from here on the gradient of z
    k.y[i] = of_gated[i] * silu(k.z[i]);                     // that of y
  }
  std::vector<T> of_a(n(channels_ * kScanStates)), of_skip(n(channels_));
  parts_->scan.backward(inputs(k, v), k.before_scan, k.y, {du, k.z, db, db + states, of_a.data(), of_skip.data()});
  for (std::size_t i = 0; i < of_a.size(); ++i) of_a[i] *= v.a[i];  // a = -exp(rates)
  Replicated<T>::report(store, weights, first_ + kScanRates, of_a);
  Replicated<T>::report(store, weights, first_ + kScanSkip, of_skip);
  dynamics_backward(store, weights, k, db, room, du);

  for (std::int64_t i = 0; i < wide; ++i) du[i] *= silu_slope(k.tapped[i]);
  std::vector<T> of_taps(n(channels_ * kScanTaps)), of_bias(n(channels_));
  T* of_x = k.u;
  parts_->taps.backward(k.x, k.before_taps, v.taps, du, of_x, of_taps.data(), of_bias.data());
  Replicated<T>::report(store, weights, first_ + kScanTapsWeight, of_taps);
  Replicated<T>::report(store, weights, first_ + kScanTapsBias, of_bias);
  put_columns(of_x, rows_, 2 * channels_, 0, channels_, scratch.wide.data());
  put_columns(k.gated, rows_, 2 * channels_, channels_, channels_, scratch.wide.data());
  in_.backward(store, weights, x, scratch.wide.data(), gathered, other, scratch.rows.data());
}

template struct ScanParts<float>;
template struct ScanParts<double>;
template class ScanMixer<float>;
template class ScanMixer<double>;

}  // namespace gpt
