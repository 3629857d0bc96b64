#pragma once

#include <cstdint>
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

/// A linear layer whose inputs are cut. Each rank multiplies its columns of x. The result is the sum over the ranks, to
/// which the bias is added once.
/// The sum is an all_reduce. Under sequence parallelism it is a reduce_scatter of rows, and the rows of the gradient
/// are gathered.
/// Shape:    n = inputs() of this rank. x [rows, n], weight [outputs, n], bias [outputs], out and dout [own_rows(),
///           outputs]. Under sequence parallelism `partial` is room for [partial_rows(), outputs] and `whole` for
///           [rows, outputs]; otherwise they are not used.
/// Thread:   the World's.
/// Lifetime: ends before communicator and blas.
/// Errors:   as PairExchange.
/// Source:   Megatron-LM, RowParallelLinear.
template <class T>
class SINEW_API RowLinear {
 public:
  RowLinear(CallGroup group, const std::string& axis, Blas& blas, const LinearShape& shape);

  std::int64_t inputs() const noexcept { return mine_.count(); }
  std::int64_t own_rows() const noexcept { return own_rows_; }
  /// The layer's parameters on this rank, as layer_parameters.hpp describes them.
  LinearParameters parameters(const DataParameter& like = {}) const;

  void forward(const T* x, const T* weight, const T* bias, T* partial, T* out);
  /// dx [rows, n]. Returns dout for all rows: `dout` itself, or `whole` if the rows were gathered there.
  const T* input_gradient(const T* dout, const T* weight, T* whole, T* dx);
  /// to = beta * to + the gradient. dout: all rows, as input_gradient returned them.
  void weight_gradient(const T* dout, const T* x, T beta, T* to) const;
  /// dout: this rank's rows. Under sequence parallelism the result is Partial, and must be summed over the ranks.
  void bias_gradient(const T* dout, T beta, T* to) const;

  /// The number of rows of `partial`.
  std::int64_t partial_rows() const noexcept;
  /// Bytes that this rank sends in a forward and a backward pass, at least.
  std::size_t sent_bytes() noexcept { return pair_.forward().sent_bytes() + pair_.backward().sent_bytes(); }

 private:
  /// multiply() gives what this rank's inputs add to some rows of the result. multiply_back() gives the gradient of
  /// these inputs.
  void multiply(const T* x, const T* weight, const Rows& rows, T* to) const;
  void multiply_back(const T* dout, const T* weight, const Rows& rows, T* dx) const;

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

extern template class RowLinear<float>;
extern template class RowLinear<double>;

}  // namespace sinew::parallel
