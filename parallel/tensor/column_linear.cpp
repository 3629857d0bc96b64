#include <algorithm>

#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/common/matrix.hpp>
#include <sinew/parallel/tensor/column_linear.hpp>

namespace sinew::parallel {
namespace {

Pair pair_of(const LinearShape& shape) {
  return shape.sequence_parallel ? gather_for_parts_pair({0, shape.row_cut.offsets}) : copy_pair();
}

}  // namespace

template <class T>
ColumnLinear<T>::ColumnLinear(CallGroup group, const std::string& axis, Blas& blas, const LinearShape& shape)
    : blas_(&blas),
      math_(layer_math<T>(blas.device())),
      shape_(shape),
      axis_(axis),
      place_(group),
      mine_(rows_of(checked_cut(shape.cut, place_.ranks, shape.outputs, shape.name, axis), place_.rank, place_.ranks,
                    shape.outputs)),
      own_rows_(shape.rows),
      pair_(group, axis, {shape.name + " input", dtype_of_layer<T>(), {shape.rows, shape.inputs}, {}}, pair_of(shape),
            blas.device()) {
  if (!shape.sequence_parallel) return;
  own_rows_ = rows_of(shape.row_cut, place_.rank, place_.ranks, shape.rows).count();
  if (shape.decomposed) ring_.emplace(group, shape.row_cut, shape.rows, shape.inputs, blas.device());
}

template <class T>
LinearParameters ColumnLinear<T>::parameters(const DataParameter& like) const {
  return column_parameters(shape_, axis_, place_.rank, place_.ranks, like);
}

template <class T>
std::int64_t ColumnLinear<T>::partial_rows() const noexcept {
  return ring_ ? ring_->room_rows() : shape_.sequence_parallel ? shape_.rows : 0;
}

template <class T>
void ColumnLinear<T>::gather(const T* x, T* whole, const std::function<void(const T* x, const Rows&)>& here) {
  if (ring_) return ring_->gather(x, whole, [&](const Rows& rows) { here(whole, rows); });
  if (!shape_.sequence_parallel) return here(x, all_rows());
  begin_gather(x, whole).get();
  here(whole, all_rows());
}

template <class T>
Exchange::Underway ColumnLinear<T>::begin_gather(const T* x, T* whole) {
  Exchange& exchange = pair_.forward();
  return exchange.start({exchange.from(), elements_of(x, own_rows_ * shape_.inputs)},
                        elements_of(whole, shape_.rows * shape_.inputs));
}

template <class T>
void ColumnLinear<T>::multiply(const T* x, const T* weight, const T* bias, const Rows& rows, const Rows& outputs,
                               T* out) const {
  const int n = as_int(this->outputs()), inputs = as_int(shape_.inputs);
  T* to = out + rows.first * n + outputs.first;
  blas_->multiply({.b_transposed = true,
                   .m = as_int(rows.count()),
                   .n = as_int(outputs.count()),
                   .k = inputs,
                   .la = inputs,
                   .lb = inputs,
                   .lc = n},
                  T{1}, x + rows.first * inputs, weight, T{0}, to);
  if (bias != nullptr) math_->add_to_rows(bias, rows.count(), outputs.count(), n, to);
}

template <class T>
void ColumnLinear<T>::forward(const T* x, const T* weight, const T* bias, T* whole, T* out) {
  gather(x, whole,
         [&](const T* rows_of_all, const Rows& rows) { multiply(rows_of_all, weight, bias, rows, all(), out); });
}

template <class T>
void ColumnLinear<T>::multiply_back(const T* dout, const T* weight, const Rows& rows, const Rows& outputs, T beta,
                                    T* to) const {
  const int n = as_int(this->outputs()), inputs = as_int(shape_.inputs);
  blas_->multiply({.m = as_int(rows.count()),
                   .n = inputs,
                   .k = as_int(outputs.count()),
                   .la = n,
                   .lb = inputs,
                   .lc = inputs,
                   .k_leaf = shape_.leaves > 0 ? as_int(shape_.outputs / shape_.leaves) : 0},
                  T{1}, dout + rows.first * n + outputs.first, weight, beta, to);
}

template <class T>
Exchange::Underway ColumnLinear<T>::sum(const std::function<void(const Rows&, T*)>& make, T* partial, T* dx) {
  if (ring_) {
    ring_->scatter(make, partial, dx);
    return {nullptr, Work{}, Buffer{}};
  }
  T* sum = shape_.sequence_parallel ? partial : dx;
  make(all_rows(), sum);
  return pair_.backward().start({Partial{}, elements_of<T>(static_cast<const T*>(sum), shape_.rows * shape_.inputs)},
                                elements_of(dx, own_rows_ * shape_.inputs), shape_.options());
}

template <class T>
Exchange::Underway ColumnLinear<T>::input_gradient(const T* dout, const T* weight, T* partial, T* dx) {
  return sum([&](const Rows& rows, T* to) { multiply_back(dout, weight, rows, all(), T{0}, to); }, partial, dx);
}

template <class T>
void ColumnLinear<T>::weight_gradient(const T* x, const T* dout, const Rows& outputs, T beta, T* to) const {
  const int n = as_int(this->outputs()), inputs = as_int(shape_.inputs);
  blas_->multiply({.a_transposed = true,
                   .m = as_int(outputs.count()),
                   .n = inputs,
                   .k = as_int(shape_.rows),
                   .la = n,
                   .lb = inputs,
                   .lc = inputs},
                  T{1}, dout + outputs.first, x, beta, to);
}

template <class T>
void ColumnLinear<T>::bias_gradient(const T* dout, const Rows& outputs, T beta, T* to) const {
  math_->sum_rows(dout + outputs.first, shape_.rows, outputs.count(), this->outputs(), beta, to);
}

template class ColumnLinear<float>;
template class ColumnLinear<double>;

}  // namespace sinew::parallel
