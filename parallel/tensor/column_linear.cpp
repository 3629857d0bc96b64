#include <sinew/parallel/tensor/column_linear.hpp>
#include <sinew/parallel/tensor/matrix.hpp>

namespace sinew::parallel {
namespace {

Pair pair_of(const LinearShape& shape) {
  return shape.sequence_parallel ? gather_for_parts_pair({0, shape.row_cut.offsets}) : copy_pair();
}

}  // namespace

template <class T>
ColumnLinear<T>::ColumnLinear(Communicator& group, const std::string& axis, Blas& blas, const LinearShape& shape)
    : blas_(&blas),
      shape_(shape),
      mine_(rows_of(checked_cut(shape.cut, GroupPlace(group).ranks, shape.outputs, shape.name, axis),
                    GroupPlace(group).rank, GroupPlace(group).ranks, shape.outputs)),
      own_rows_(shape.rows),
      pair_(group, axis, {shape.name + " input", dtype_of_layer<T>(), {shape.rows, shape.inputs}, {}}, pair_of(shape)) {
  if (shape.sequence_parallel)
    own_rows_ = rows_of(shape.row_cut, GroupPlace(group).rank, GroupPlace(group).ranks, shape.rows).count();
}

template <class T>
Exchange::Underway ColumnLinear<T>::gather(const T* x, T* whole) {
  Exchange& exchange = pair_.forward();
  return exchange.start({exchange.from(), elements_of(x, own_rows_ * shape_.inputs)},
                        elements_of(whole, shape_.rows * shape_.inputs));
}

template <class T>
void ColumnLinear<T>::forward(const T* x, const T* weight, const T* bias, T* whole, T* out) {
  if (shape_.sequence_parallel) {
    gather(x, whole).get();
    x = whole;
  }
  const int n = as_int(outputs()), inputs = as_int(shape_.inputs);
  blas_->multiply(
      {.b_transposed = true, .m = as_int(shape_.rows), .n = n, .k = inputs, .la = inputs, .lb = inputs, .lc = n}, T{1},
      x, weight, T{0}, out);
  if (bias != nullptr) add_to_rows(bias, shape_.rows, outputs(), out);
}

template <class T>
Exchange::Underway ColumnLinear<T>::input_gradient(const T* dout, const T* weight, T* partial, T* dx) {
  T* sum = shape_.sequence_parallel ? partial : dx;
  const int n = as_int(outputs()), inputs = as_int(shape_.inputs);
  blas_->multiply({.m = as_int(shape_.rows), .n = inputs, .k = n, .la = n, .lb = inputs, .lc = inputs}, T{1}, dout,
                  weight, T{0}, sum);
  return pair_.backward().start({Partial{}, elements_of<T>(static_cast<const T*>(sum), shape_.rows * shape_.inputs)},
                                elements_of(dx, own_rows_ * shape_.inputs));
}

template <class T>
void ColumnLinear<T>::weight_gradient(const T* x, const T* dout, T beta, T* to) const {
  const int n = as_int(outputs()), inputs = as_int(shape_.inputs);
  blas_->multiply(
      {.a_transposed = true, .m = n, .n = inputs, .k = as_int(shape_.rows), .la = n, .lb = inputs, .lc = inputs}, T{1},
      dout, x, beta, to);
}

template <class T>
void ColumnLinear<T>::bias_gradient(const T* dout, T beta, T* to) const {
  sum_rows(dout, shape_.rows, outputs(), beta, to);
}

template class ColumnLinear<float>;
template class ColumnLinear<double>;

}  // namespace sinew::parallel
