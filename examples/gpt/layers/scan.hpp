#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/scan/causal_convolution.hpp>
#include <sinew/parallel/scan/state_scan.hpp>
#include <sinew/parallel/tensor/pairs.hpp>

#include "../math/blas.hpp"
#include "../model/mixer.hpp"
#include "linear.hpp"

namespace gpt {

/// What moves along sequences in a scan, of the channels and positions that this rank has: as all blocks have it.
template <class T>
struct ScanParts {
  /// ring: all ranks that share sequences.
  ScanParts(const BlockShape& shape, sinew::Communicator& ring);

  std::size_t held_bytes() const noexcept { return taps.held_bytes() + scan.held_bytes(); }
  /// Elements of that.
  static std::int64_t room_for(const BlockShape& shape);

  sinew::parallel::CausalConvolution<T> taps;
  sinew::parallel::StateScan<T> scan;
};

/// A selective scan behind a short convolution, gated:
///     (x, z) = in(input); u = silu(taps(x)); (low, b, c) = dynamics(u); dt = softplus(step(low))
///     out(scan(u, dt, b, c; -exp(rates), skip) * silu(z))
/// Tensor-parallel ranks have channels of their own; b, c and low are sums over all of them, one exchange each way.
/// Source: Gu & Dao, Mamba, arXiv 2312.00752.
template <class T>
class ScanMixer final : public Mixer<T> {
 public:
  /// Lifetime: ends before all of these.
  ScanMixer(const BlockShape& shape, int number, sinew::Communicator& group, Blas& blas, ScanParts<T>& parts);

  void forward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const BlockScratch<T>& scratch,
               T* out) override;
  /// Writes over what was kept.
  void backward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const T* d,
                const BlockScratch<T>& scratch) override;
  std::size_t kept_elements() const override;

  static std::size_t kept_for(const BlockShape& shape);
  /// Elements of a row of scratch.wide.
  static std::int64_t row_of(const BlockShape& shape);
  /// Elements of what gradients are made of that are deferred.
  static std::int64_t deferred_for(const BlockShape& shape);

 private:
  /// [rows, channels], but for low [rows, step rank], b and c [rows, states].
  struct Kept {
    T *x, *z, *tapped, *u, *raw_dt, *dt, *y, *gated, *low, *b, *c, *before_taps, *before_scan;
  };
  Kept of(std::span<T> kept) const;
  /// Parameters of the scan as it takes them, and those of the taps.
  struct Vectors;
  sinew::parallel::ScanInputs<T> inputs(const Kept& k, const Vectors& v) const;
  /// low, b, c and the step sizes of u.
  void find_dynamics(Store& store, Weights<T>& weights, const Kept& k, const Vectors& v, T* room);
  /// dt's gradient in k.z, those of b and c one behind the other at `db`: to that of u, added to du. room: two of
  /// [rows, channels] and [rows, low, b and c].
  void dynamics_backward(Store& store, Weights<T>& weights, const Kept& k, const T* db, T* room, T* du);

  BlockShape shape_;
  std::int64_t rows_, channels_, step_rank_;
  int first_;  // parameter
  sinew::Communicator* group_;
  Blas* blas_;
  ScanParts<T>* parts_;
  Columns<T> in_;
  RowsOf<T> dynamics_, out_;
  sinew::parallel::Exchange sum_dynamics_;  // gradients of low, b and c
};

extern template struct ScanParts<float>;
extern template struct ScanParts<double>;
extern template class ScanMixer<float>;
extern template class ScanMixer<double>;

}  // namespace gpt
