#pragma once

#include <cstdint>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/export.hpp>
#include <sinew/parallel/compute/blas.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/linear_shape.hpp>
#include <sinew/parallel/tensor/pairs.hpp>

namespace sinew::parallel {

/// A linear layer whose outputs are cut: each rank has rows of the weight and the same columns of the result.
///
///     forward(x, ...)                                   out of this rank's outputs
///     auto dx = input_gradient(...)                     the product, then its sum over the ranks begins
///     weight_gradient(...), bias_gradient(...)          meanwhile
///     dx.get()
///
/// The sum is an all_reduce, under sequence parallelism a reduce_scatter of rows, before which forward gathers them.
/// Shape:    n = outputs(): of this rank. weight [n, inputs], bias [n], out and dout [rows, n]; x as the engine has it,
///           [own_rows(), inputs]; `whole` room for [rows, inputs] under sequence parallelism, else not looked at.
/// Thread:   the World's. Lifetime: ends before communicator and blas.
/// Errors:   as PairExchange.
/// Source:   Megatron-LM, ColumnParallelLinear; Korthikanti et al., arXiv 2205.05198.
template <class T>
class SINEW_API ColumnLinear {
 public:
  ColumnLinear(Communicator& group, const std::string& axis, Blas& blas, const LinearShape& shape);

  std::int64_t outputs() const noexcept { return mine_.count(); }
  std::int64_t own_rows() const noexcept { return own_rows_; }

  /// `whole` stays as it is for weight_gradient, or is made again by gather(). bias: null, there is none.
  void forward(const T* x, const T* weight, const T* bias, T* whole, T* out);
  /// Under sequence parallelism: x of all ranks. Begun before input_gradient it is hidden behind its product.
  Exchange::Underway gather(const T* x, T* whole);
  /// dx [own_rows(), inputs]; `partial`: room for [rows, inputs] under sequence parallelism.
  Exchange::Underway input_gradient(const T* dout, const T* weight, T* partial, T* dx);
  /// to = beta * to + the gradient. x: all rows, what forward gathered.
  void weight_gradient(const T* x, const T* dout, T beta, T* to) const;
  void bias_gradient(const T* dout, T beta, T* to) const;

  /// Bytes that this rank sends in a forward and a backward pass, at least.
  std::size_t sent_bytes() noexcept { return pair_.forward().sent_bytes() + pair_.backward().sent_bytes(); }

 private:
  Blas* blas_;
  LinearShape shape_;
  Rows mine_;
  std::int64_t own_rows_;
  PairExchange pair_;
};

extern template class ColumnLinear<float>;
extern template class ColumnLinear<double>;

}  // namespace sinew::parallel
