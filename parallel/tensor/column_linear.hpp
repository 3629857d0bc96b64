#pragma once

// Layers that the ranks of an axis share. The room holds tensor-parallel layers, the exchanges between them, and graphs
// of whole models of such layers. It may include placements, graphs with placements, the mesh and layout-invariant
// sums.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/layer_parameters.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/pairs.hpp>
#include <sinew/parallel/tensor/ring_rows.hpp>

namespace sinew::parallel {

/// A linear layer whose outputs are cut. Each rank has some rows of the weight, and the corresponding columns of the
/// result.
///
///     forward(x, ...)                                   out of this rank's outputs
///     auto dx = input_gradient(...)                     the product, then its sum over the ranks begins
///     weight_gradient(...), bias_gradient(...)          meanwhile
///     dx.get()
///
/// The sum is an all_reduce. Under sequence parallelism it is a reduce_scatter of rows, and forward gathers the rows
/// first.
/// Several weights may make the outputs side by side, such as queries, keys and values. Then the functions under "the
/// parts" are called for each weight, and rows and sums are exchanged once.
/// Shape:    n = outputs() of this rank. weight [n, inputs], bias [n], out and dout [rows, n]. x [own_rows(), inputs],
///           as the engine has it. `whole` is room for [rows, inputs] under sequence parallelism; otherwise it is not
///           used.
/// Thread:   the World's.
/// Lifetime: ends before communicator and blas.
/// Errors:   as PairExchange.
/// Source:   Megatron-LM, ColumnParallelLinear; Korthikanti et al., arXiv 2205.05198.
template <class T>
class SINEW_API ColumnLinear {
 public:
  ColumnLinear(CallGroup group, const std::string& axis, Blas& blas, const LinearShape& shape);

  std::int64_t outputs() const noexcept { return mine_.count(); }
  std::int64_t own_rows() const noexcept { return own_rows_; }
  /// The layer's parameters on this rank, as layer_parameters.hpp describes them.
  LinearParameters parameters(const DataParameter& like = {}) const;

  /// `whole` must stay as it is for weight_gradient, or be made again by begin_gather(). bias: null if there is none.
  void forward(const T* x, const T* weight, const T* bias, T* whole, T* out);
  /// Gathers the x of all ranks into `whole` again, for weight_gradient. Other computing may go on meanwhile.
  Exchange::Underway begin_gather(const T* x, T* whole);
  /// dx [own_rows(), inputs]. `partial`: room for [partial_rows(), inputs] under sequence parallelism.
  Exchange::Underway input_gradient(const T* dout, const T* weight, T* partial, T* dx);
  /// to = beta * to + the gradient. x: all rows, as forward gathered them.
  void weight_gradient(const T* x, const T* dout, T beta, T* to) const { weight_gradient(x, dout, all(), beta, to); }
  void bias_gradient(const T* dout, T beta, T* to) const { bias_gradient(dout, all(), beta, to); }

  // --- the parts: of some outputs, of some rows ------------------------------------------------------------------

  /// Gives the x of all ranks: x itself, or what is gathered into `whole`. `here` is called when rows are there. With
  /// LinearShape::decomposed it is called for the rows of each rank as they arrive, otherwise once for all rows.
  void gather(const T* x, T* whole, const std::function<void(const T* x, const Rows&)>& here);
  /// out[rows, outputs] = x * weight^T + bias. x and out hold all rows.
  void multiply(const T* x, const T* weight, const T* bias, const Rows& rows, const Rows& outputs, T* out) const;
  /// Sums the gradient of the input over the ranks, into dx. `make` computes what this rank's outputs add to the
  /// gradient of some rows, by multiply_back.
  Exchange::Underway sum(const std::function<void(const Rows&, T*)>& make, T* partial, T* dx);
  /// to [rows, inputs] = beta * to + dout[rows, outputs] * weight.
  void multiply_back(const T* dout, const T* weight, const Rows& rows, const Rows& outputs, T beta, T* to) const;
  void weight_gradient(const T* x, const T* dout, const Rows& outputs, T beta, T* to) const;
  void bias_gradient(const T* dout, const Rows& outputs, T beta, T* to) const;

  /// The number of rows of `partial`.
  std::int64_t partial_rows() const noexcept;
  /// Bytes that this rank sends in a forward and a backward pass, at least.
  std::size_t sent_bytes() noexcept { return pair_.forward().sent_bytes() + pair_.backward().sent_bytes(); }

 private:
  Rows all() const noexcept { return {0, outputs()}; }
  Rows all_rows() const noexcept { return {0, shape_.rows}; }

  Blas* blas_;
  std::shared_ptr<const LayerMath<T>> math_;
  LinearShape shape_;
  std::string axis_;
  GroupPlace place_;
  Rows mine_;
  std::int64_t own_rows_;
  PairExchange pair_;
  std::optional<RingRows<T>> ring_;  // taken apart
};

extern template class ColumnLinear<float>;
extern template class ColumnLinear<double>;

}  // namespace sinew::parallel
