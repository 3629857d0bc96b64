#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>
#include <sinew/parallel/modules/layers/state_space_shape.hpp>
#include <sinew/parallel/scan/causal_convolution.hpp>
#include <sinew/parallel/scan/head_state_scan.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {

/// The memory that a StateSpaceModule uses during its passes, and the exchanges along sequences. Layers of equal shape
/// may share one object, because their passes run one after the other.
/// Lifetime: ends before the communicators and the Blas.
template <class T>
struct SINEW_API StateSpaceParts {
  StateSpaceParts(const LayerGroup& group, CallGroup context, const StateSpaceShape& shape);

  /// Bytes held between calls.
  std::size_t held_bytes() const noexcept { return taps.held_bytes() + scan.held_bytes(); }

  HeadScanSizes sizes;
  std::int64_t width_of_taps, chunk;
  SequenceCut positions;
  CausalConvolution<T> taps;
  HeadStateScan<T> scan;
};

/// The layer of Mamba-2: a state space by heads behind a short convolution, gated and normalised.
///     (x, z) = in(input);  (b, c) = states(input);  dt = softplus(step(input))
///     (x, b, c) = silu(taps(x, b, c))
///     out(norm(scan(x, dt, b, c; -exp(rates), skip) * silu(z)))
/// The norm divides the elements of each group of heads by the root of their mean square. Each is then multiplied by
/// its weight. Heads are cut over the tensor-parallel ranks as evenly as possible, with their x, z and dt.
/// If every group falls on one rank, b and c are cut with their heads. Otherwise every rank has the weights of all
/// groups. Then the norm's sums over a group are made by an all_reduce. So results do not depend on the number of
/// ranks. Sequences are cut over the context group.
/// The parameters begin with the name of the layer and a dot. inner is heads * head_width. Their whole shapes are:
///     in.weight [2, inner, width]                taps.weight [inner, taps]
///     states.weight [2, groups * states, width]  state_taps.weight [2, groups * states, taps]
///     step.weight [heads, width]                 state_taps.bias [2, groups * states]
///     step.bias, rates, skip [heads]             taps.bias, norm.weight [inner]
///     out.weight [width, inner]
/// Shape:  x, out [own rows, width]; rows are sequences * the positions of this rank.
/// Errors: InvalidArgument for sizes below 1, and for heads that are no multiple of the groups. InvalidArgument for
///         fewer heads than tensor-parallel ranks. InvalidArgument for positions that are cut for another number of
///         ranks. InvalidArgument for parts that were made for other sizes or positions. Otherwise as the linear layers
///         and HeadStateScan.
/// Source: Dao & Gu, Transformers are SSMs, arXiv 2405.21060; Megatron-LM, MambaMixer, where groups are a multiple of
///         the ranks.
template <class T>
class SINEW_API StateSpaceModule final : public Module<T> {
 public:
  /// context: all ranks that share sequences. parts: null means that the layer has its own.
  StateSpaceModule(const LayerGroup& group, CallGroup context, const StateSpaceShape& shape,
                   const ScanOptions& options = {}, std::shared_ptr<StateSpaceParts<T>> parts = nullptr);

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
  /// The arrays of Kept: In, Tapped and U have x, b and c of each token side by side.
  enum Array : std::uint8_t { In, Tapped, U, Z, Y, Normed, RawStep, Step, Factors, BeforeTaps, BeforeScan };
  /// The gradients that are kept. OfVectors has those of the parameters that are neither in linear layers nor the bias
  /// of the steps.
  enum Gradient : std::uint8_t { OfIn, OfVectors };
  /// The arrays that the first half of the backward pass gives back.
  static constexpr std::array kUsedUp{In, Tapped, U, Z, Y, RawStep, Step, Factors, BeforeTaps, BeforeScan};
  /// Outputs of one parameter: outputs[i] of in_ are made by the rows of the parameter from at[i] on.
  struct Projection {
    std::int32_t weight = -1;
    std::int64_t rows = 0;  // of the parameter on this rank
    std::vector<Rows> outputs{};
    std::vector<std::int64_t> at{};
    bool whole = false;  // every rank has all of it
  };
  /// The convolution's weights and biases, one channel after the other.
  struct Taps {
    PooledArray<T> weight, bias;
  };
  /// Where the gradients of the vectors lie in one array.
  struct Vectors {
    T *rates, *skip, *norm, *taps, *taps_bias;
  };

  std::int64_t inner() const noexcept { return sizes_.width(); }
  std::int64_t tapped() const noexcept { return sizes_.width() + 2 * sizes_.group_states(); }
  std::int64_t row_width() const noexcept { return tapped() + inner() + sizes_.heads; }
  /// Elements of the array in which the inputs of all ranks are gathered. 0: this rank has all rows.
  std::int64_t all_rows_elements() const noexcept { return group_.sequence_parallel ? rows_ * shape_.width : 0; }
  std::vector<std::int64_t> kept_lengths() const;
  std::vector<std::int64_t> gradient_lengths() const;
  Vectors vectors(T* all) const noexcept;
  /// f(group of this rank, its channels on this rank).
  template <class F>
  void for_each_group(const F& f) const;
  PooledArray<T> decay_rates(Pass<T>& pass) const;
  Taps taps(Pass<T>& pass) const;
  HeadScanInputs<T> inputs(const Kept<T>& kept, const T* a, const T* skip) const;
  void project(Pass<T>& pass, const T* x, Kept<T>& kept);
  void project_back(Pass<T>& pass, const T* of_in, T* dx);
  /// Sums [rows, groups of this rank] over the ranks, if they share groups.
  void sum_of_groups(Pass<T>& pass, T* of_groups);
  void normalise(Pass<T>& pass, Kept<T>& kept);
  /// dnormed becomes the gradient of the scan's outputs, in Y, and that of z, in Z.
  void normalise_back(Pass<T>& pass, Kept<T>& kept, const T* dnormed, T* of_weight);
  void add_gradient(Pass<T>& pass, const Projection& of, std::int32_t parameter, std::int64_t columns,
                    const std::function<void(std::size_t part, T beta, T* to)>& gradient);

  StateSpaceShape shape_;
  LayerGroup group_;
  ScanOptions options_;
  HeadCut cut_;
  HeadScanSizes sizes_;
  std::int64_t rows_;
  std::shared_ptr<StateSpaceParts<T>> parts_;
  ColumnLinear<T> in_;
  RowModule<T> out_;
  Projection x_and_z_, states_, steps_;
  std::int32_t step_bias_ = -1, taps_weight_ = -1, taps_bias_ = -1, state_taps_weight_ = -1, state_taps_bias_ = -1,
               rates_ = -1, skip_ = -1, norm_ = -1;
};

extern template struct StateSpaceParts<float>;
extern template struct StateSpaceParts<double>;
extern template class StateSpaceModule<float>;
extern template class StateSpaceModule<double>;

}  // namespace sinew::parallel
