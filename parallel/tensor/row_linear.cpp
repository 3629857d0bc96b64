#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/tensor/row_linear.hpp>

namespace sinew::parallel {
namespace {

Pair pair_of(const LinearShape& shape) {
  return shape.sequence_parallel ? reduce_scatter_pair({0, shape.row_cut.offsets}) : reduce_pair();
}

}  // namespace

template <class T>
RowLinear<T>::RowLinear(CallGroup group, const std::string& axis, Blas& blas, const LinearShape& shape)
    : blas_(&blas),
      math_(layer_math<T>(blas.device())),
      shape_(shape),
      axis_(axis),
      place_(group),
      mine_(rows_of(checked_cut(shape.cut, place_.ranks, shape.inputs, shape.name, axis), place_.rank, place_.ranks,
                    shape.inputs)),
      own_rows_(shape.rows),
      pair_(group, axis, {shape.name + " output", dtype_of_layer<T>(), {shape.rows, shape.outputs}, {}}, pair_of(shape),
            blas.device()) {
  if (!shape.sequence_parallel) return;
  own_rows_ = rows_of(shape.row_cut, place_.rank, place_.ranks, shape.rows).count();
  if (shape.decomposed) ring_.emplace(group, shape.row_cut, shape.rows, shape.outputs, blas.device());
}

template <class T>
LinearParameters RowLinear<T>::parameters(const DataParameter& like) const {
  return row_parameters(shape_, axis_, place_.rank, place_.ranks, like);
}

template <class T>
std::int64_t RowLinear<T>::partial_rows() const noexcept {
  return ring_ ? ring_->room_rows() : shape_.sequence_parallel ? shape_.rows : 0;
}

template <class T>
void RowLinear<T>::multiply(const T* x, const T* weight, const Rows& rows, T* to) const {
  const int n = as_int(inputs()), outputs = as_int(shape_.outputs);
  blas_->multiply({.b_transposed = true,
                   .m = as_int(rows.count()),
                   .n = outputs,
                   .k = n,
                   .la = n,
                   .lb = n,
                   .lc = outputs,
                   .k_leaf = shape_.leaves > 0 ? as_int(shape_.inputs / shape_.leaves) : 0},
                  T{1}, x + rows.first * n, weight, T{0}, to);
}

template <class T>
void RowLinear<T>::forward(const T* x, const T* weight, const T* bias, T* partial, T* out) {
  if (ring_) {
    ring_->scatter([&](const Rows& rows, T* to) { multiply(x, weight, rows, to); }, partial, out);
  } else {
    T* sum = shape_.sequence_parallel ? partial : out;
    multiply(x, weight, {0, shape_.rows}, sum);
    pair_.forward().run({Partial{}, elements_of<T>(static_cast<const T*>(sum), shape_.rows * shape_.outputs)},
                        elements_of(out, own_rows_ * shape_.outputs), shape_.options());
  }
  if (bias != nullptr) math_->add_to_rows(bias, own_rows_, shape_.outputs, shape_.outputs, out);
}

template <class T>
void RowLinear<T>::multiply_back(const T* dout, const T* weight, const Rows& rows, T* dx) const {
  const int n = as_int(inputs()), outputs = as_int(shape_.outputs);
  blas_->multiply({.m = as_int(rows.count()), .n = n, .k = outputs, .la = outputs, .lb = n, .lc = n}, T{1},
                  dout + rows.first * outputs, weight, T{0}, dx + rows.first * n);
}

template <class T>
const T* RowLinear<T>::input_gradient(const T* dout, const T* weight, T* whole, T* dx) {
  if (ring_) {
    ring_->gather(dout, whole, [&](const Rows& rows) { multiply_back(whole, weight, rows, dx); });
    return whole;
  }
  if (shape_.sequence_parallel) {
    Exchange& exchange = pair_.backward();
    exchange.run({exchange.from(), elements_of(dout, own_rows_ * shape_.outputs)},
                 elements_of(whole, shape_.rows * shape_.outputs));
    dout = whole;
  }
  multiply_back(dout, weight, {0, shape_.rows}, dx);
  return dout;
}

template <class T>
void RowLinear<T>::weight_gradient(const T* dout, const T* x, T beta, T* to) const {
  const int n = as_int(inputs()), outputs = as_int(shape_.outputs);
  blas_->multiply(
      {.a_transposed = true, .m = outputs, .n = n, .k = as_int(shape_.rows), .la = outputs, .lb = n, .lc = n}, T{1},
      dout, x, beta, to);
}

template <class T>
void RowLinear<T>::bias_gradient(const T* dout, T beta, T* to) const {
  math_->sum_rows(dout, own_rows_, shape_.outputs, shape_.outputs, beta, to);
}

template class RowLinear<float>;
template class RowLinear<double>;

}  // namespace sinew::parallel
