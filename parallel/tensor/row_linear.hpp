#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/blas.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/pairs.hpp>
#include <sinew/parallel/tensor/ring_rows.hpp>

namespace sinew::parallel {

/// A linear layer whose inputs are cut: each rank multiplies its columns of x, the sum over the ranks is the result, to
/// which the bias is added once.
/// The sum is an all_reduce, under sequence parallelism a reduce_scatter of rows, and the gradient's rows are gathered.
/// Shape:    n = inputs(): of this rank. x [rows, n], weight [outputs, n], bias [outputs]; out and dout
///           [own_rows(), outputs]; under sequence parallelism `partial` is room for [partial_rows(), outputs] and
///           `whole` for [rows, outputs], else they are not looked at.
/// Thread:   the World's. Lifetime: ends before communicator and blas.
/// Errors:   as PairExchange.
/// Source:   Megatron-LM, RowParallelLinear.
template <class T>
class SINEW_API RowLinear {
 public:
  RowLinear(CallGroup group, const std::string& axis, Blas& blas, const LinearShape& shape);

  std::int64_t inputs() const noexcept { return mine_.count(); }
  std::int64_t own_rows() const noexcept { return own_rows_; }

  void forward(const T* x, const T* weight, const T* bias, T* partial, T* out);
  /// dx [rows, n]. Returns the gradient of all rows: `dout` itself, or `whole` where it was gathered there.
  const T* input_gradient(const T* dout, const T* weight, T* whole, T* dx);
  // dout: of all rows.
  /// to = beta * to + the gradient.
  void weight_gradient(const T* dout, const T* x, T beta, T* to) const;
  /// dout: this rank's rows; under sequence parallelism the result is Partial: a sum over the ranks is to come.
  void bias_gradient(const T* dout, T beta, T* to) const;

  /// Of `partial`.
  std::int64_t partial_rows() const noexcept;
  /// Bytes that this rank sends in a forward and a backward pass, at least.
  std::size_t sent_bytes() noexcept { return pair_.forward().sent_bytes() + pair_.backward().sent_bytes(); }

 private:
  /// Of some rows: what this rank's inputs give to them, and the gradient of its inputs.
  void multiply(const T* x, const T* weight, const Rows& rows, T* to) const;
  void multiply_back(const T* dout, const T* weight, const Rows& rows, T* dx) const;

  Blas* blas_;
  LinearShape shape_;
  Rows mine_;
  std::int64_t own_rows_;
  PairExchange pair_;
  std::optional<RingRows<T>> ring_;  // taken apart
};

extern template class RowLinear<float>;
extern template class RowLinear<double>;

}  // namespace sinew::parallel
