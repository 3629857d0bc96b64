#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/scan/causal_convolution.hpp>
#include <sinew/parallel/scan/state_scan.hpp>
#include <sinew/parallel/tensor/exchange.hpp>

namespace sinew::parallel {

/// The shape of a layer with a selective scan (Mamba), and of the sequences of a pass. All counts are those of the
/// whole layer.
struct ScanShape {
  std::string name{};
  std::int64_t width = 0;
  std::int64_t channels = 0;   ///< 0: twice the width
  std::int64_t step_rank = 0;  ///< numbers of each token from which its step sizes are made; 0: width / 16, rounded up
  std::int64_t states = 16;    ///< of each channel
  std::int64_t taps = 4;       ///< tokens that the convolution looks at
  std::int64_t sequences = 1;
  SequenceCut positions;  ///< the cut of each sequence over the ranks of the context group
};

/// Standard deviations of initial values.
struct ScanOptions {
  double deviation = 0.02;      ///< of the projection in front
  double out_deviation = 0.02;  ///< of the projection behind
};

/// Initial values of biases of step sizes. Their softplus is distributed log-uniformly from 0.001 to 0.1.
SINEW_API InitialRule biases_of_steps();

/// The memory that a scan uses during its passes, and the exchanges along sequences. Layers of equal shape may share
/// one object, because their passes run one after the other.
/// Lifetime: ends before the communicators.
template <class T>
struct SINEW_API ScanParts {
  ScanParts(const LayerGroup& group, CallGroup context, const ScanShape& shape);

  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept { return taps.held_bytes() + scan.held_bytes(); }

  ScanSizes sizes;
  std::int64_t width_of_taps;
  SequenceCut positions;
  CausalConvolution<T> taps;
  StateScan<T> scan;
};

/// The layer of Mamba: a selective scan behind a short convolution, gated.
///     (x, z) = in(input);  u = silu(taps(x));  (low, b, c) = dynamics(u);  dt = softplus(step(low))
///     out(scan(u, dt, b, c; -exp(rates), skip) * silu(z))
/// Channels are cut over the tensor-parallel ranks as evenly as possible. low, b and c are sums over all channels. So
/// they need an all_reduce, and their gradients need another one. Sequences are cut over the context group.
/// The parameters begin with the name of the layer and a dot. Their whole shapes are:
///     in.weight [2, channels, width]                    taps.weight [channels, taps]
///     dynamics.weight [step_rank + 2 states, channels]  taps.bias, step.bias, skip [channels]
///     step.weight [channels, step_rank]                 rates [channels, states]
///     out.weight [width, channels]
/// Shape:  x, out [own rows, width]; rows are sequences * the positions of this rank.
/// Errors: InvalidArgument for sizes below 1, and for fewer channels than tensor-parallel ranks. InvalidArgument for
///         positions that are cut for another number of ranks. InvalidArgument for parts that were made for other sizes
///         or positions. Otherwise as the linear layers and StateScan.
/// Source: Gu & Dao, Mamba, arXiv 2312.00752, with its initial values.
template <class T>
class SINEW_API ScanModule final : public Module<T> {
 public:
  /// context: all ranks that share sequences. parts: null means that the layer has its own.
  ScanModule(const LayerGroup& group, CallGroup context, const ScanShape& shape, const ScanOptions& options = {},
             std::shared_ptr<ScanParts<T>> parts = nullptr);

  std::int64_t in_elements() const override { return in_.own_rows() * shape_.width; }
  std::int64_t out_elements() const override { return out_.out_elements(); }
  std::string_view name() const override { return shape_.name; }
  ArrayCounts kept_arrays() const override;
  ArrayCounts deferred_arrays() const override;
  ArrayCounts forward_arrays(bool keeps) const override;
  ArrayCounts backward_arrays() const override;
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  /// The arrays of Kept: [rows, channels], except low [rows, step_rank], b and c [rows, states].
  enum Array : std::uint8_t { X, Z, Tapped, U, RawStep, Step, Y, Gated, Low, B, C, BeforeTaps, BeforeScan };
  /// The gradients that are kept. OfVectors has those of rates, skip, taps.weight and taps.bias one behind the other.
  enum Gradient : std::uint8_t { OfIn, OfRawStep, OfDynamics, OfVectors };
  enum Part : std::uint8_t { Dynamics, Out };
  /// The arrays that the first half of the backward pass gives back.
  static constexpr std::array kUsedUp{X, Z, Tapped, RawStep, Step, Y, B, C, BeforeTaps, BeforeScan};

  std::int64_t wide() const noexcept { return rows_ * channels_.count(); }
  std::int64_t dynamics_width() const noexcept { return shape_.step_rank + 2 * shape_.states; }
  /// Elements of the array in which the inputs of all ranks are gathered. 0: this rank has all rows.
  std::int64_t all_rows_elements() const noexcept { return group_.sequence_parallel ? rows_ * shape_.width : 0; }
  std::vector<std::int64_t> kept_lengths() const;
  std::vector<std::int64_t> gradient_lengths() const;
  /// -exp(rates).
  PooledArray<T> decay_rates(Pass<T>& pass) const;
  ScanInputs<T> inputs(const Kept<T>& kept, const T* a, const T* skip) const;
  void project(Pass<T>& pass, const T* x, Kept<T>& kept);
  /// low, b, c and the step sizes of u.
  void find_dynamics(Pass<T>& pass, Kept<T>& kept);
  /// The gradients of dt, b and c become those of RawStep and of the outputs of dynamics. The latter's part of the
  /// gradient of u is added to du.
  void dynamics_backward(Pass<T>& pass, Kept<T>& kept, const T* db, const T* dc, T* du);

  ScanShape shape_;
  LayerGroup group_;
  ScanOptions options_;
  Rows channels_;  // of this rank
  std::int64_t rows_;
  std::shared_ptr<ScanParts<T>> parts_;
  ColumnLinear<T> in_;
  RowModule<T> dynamics_, out_;
  Exchange sum_dynamics_;  // of the gradients of low, b and c
  std::int32_t in_weight_ = -1, taps_weight_ = -1, taps_bias_ = -1, step_weight_ = -1, step_bias_ = -1, rates_ = -1,
               skip_ = -1;
};

extern template struct ScanParts<float>;
extern template struct ScanParts<double>;
extern template class ScanModule<float>;
extern template class ScanModule<double>;

}  // namespace sinew::parallel
