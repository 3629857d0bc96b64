#include <algorithm>
#include <utility>

#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>

namespace sinew::parallel {

template <class T>
ColumnModule<T>::ColumnModule(const LayerGroup& group, const LinearShape& shape, const LinearOptions& options)
    : shape_(group.with_rows(shape)), options_(options), layer_(group.tensor, "tp", *group.blas, shape_) {}

template <class T>
std::int64_t ColumnModule<T>::in_elements() const {
  return layer_.own_rows() * shape_.inputs;
}

template <class T>
std::int64_t ColumnModule<T>::out_elements() const {
  return shape_.rows * layer_.outputs();
}

std::int32_t add_table(ParameterList& list, TableOwner owner, DataParameter table, double deviation) {
  switch (owner) {
    case TableOwner::Module: break;
    case TableOwner::Shared: return list.add_shared(std::move(table), normally_distributed(deviation));
    case TableOwner::OtherStage: return list.add_copy(std::move(table));
  }
  return list.add(std::move(table), normally_distributed(deviation));
}

template <class T>
void ColumnModule<T>::declare(ParameterList& list) {
  LinearParameters of = layer_.parameters(list.like());
  weight_ = add_table(list, options_.owner, std::move(of.weight), options_.deviation);
  if (options_.bias) bias_ = list.add(std::move(of.bias), all_equal_to(0));
}

template <class T>
void ColumnModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  const auto weight = pass.values(weight_);
  const auto bias = options_.bias ? pass.values(bias_) : typename Pass<T>::Values{};
  const PooledArray<T> whole = pass.take(all_rows_elements());
  layer_.forward(x, weight.data(), bias.data(), whole.data(), out);
}

template <class T>
void ColumnModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx == nullptr) return;
  const auto weight = pass.values(weight_);
  const PooledArray<T> partial = pass.take(layer_.partial_rows() * shape_.inputs);
  layer_.input_gradient(dout, weight.data(), partial.data(), dx).get();
}

template <class T>
void ColumnModule<T>::add_weight_gradient(Pass<T>& pass, const T* all_rows, const T* dout) {
  if (pass.by_sample != nullptr) {
    const ParameterUse use = options_.owner == TableOwner::Module ? ParameterUse{} : kPredicts;
    const std::int64_t outputs = layer_.outputs(), inputs = shape_.inputs;
    SampleSums<T>& sums = *pass.by_sample;
    const auto of_weight = [&](std::int64_t row, T* to) {
      sums.multiply(dout + row * outputs, outputs, outputs, all_rows + row * inputs, inputs, inputs, to);
    };
    sums.add(pass, weight_, outputs * inputs, of_weight, use);
    if (options_.bias) add_sample_rows(pass, bias_, dout, outputs);
    return;
  }
  pass.add_gradient(weight_, [&](T* to, T beta) { layer_.weight_gradient(all_rows, dout, beta, to); });
  pass.ready(weight_);
  if (!options_.bias) return;
  pass.add_gradient(bias_, [&](T* to, T beta) { layer_.bias_gradient(dout, beta, to); });
  pass.ready(bias_);
}

template <class T>
void ColumnModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, const T* dout) {
  if (!shape_.sequence_parallel) return add_weight_gradient(pass, x, dout);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  layer_.begin_gather(x, whole.data()).get();
  add_weight_gradient(pass, whole.data(), dout);
}

template <class T>
void ColumnModule<T>::backward(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) {
  if (dx == nullptr) return weight_gradient(pass, x, kept, dout);
  const PooledArray<T> whole = pass.take(all_rows_elements());
  std::optional<Exchange::Underway> rows;
  if (shape_.sequence_parallel) rows.emplace(layer_.begin_gather(x, whole.data()));
  const PooledArray<T> partial = pass.take(layer_.partial_rows() * shape_.inputs);
  // input_gradient() has read the weight when it returns. So an array of converted values is free for the gradient.
  auto sum = layer_.input_gradient(dout, pass.values(weight_).data(), partial.data(), dx);
  if (rows) rows->get();
  add_weight_gradient(pass, shape_.sequence_parallel ? whole.data() : x, dout);
  sum.get();
}

template <class T>
RowModule<T>::RowModule(const LayerGroup& group, const LinearShape& shape, const LinearOptions& options)
    : group_(group.tensor),
      shape_(group.with_rows(shape)),
      options_(options),
      layer_(group.tensor, "tp", *group.blas, shape_) {}

template <class T>
std::int64_t RowModule<T>::in_elements() const {
  return shape_.rows * layer_.inputs();
}

template <class T>
std::int64_t RowModule<T>::out_elements() const {
  return layer_.own_rows() * shape_.outputs;
}

template <class T>
void RowModule<T>::declare(ParameterList& list) {
  LinearParameters of = layer_.parameters(list.like());
  weight_ = list.add(std::move(of.weight), normally_distributed(options_.deviation));
  if (options_.bias) bias_ = list.add(std::move(of.bias), all_equal_to(0));
}

template <class T>
void RowModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  const auto weight = pass.values(weight_);
  const auto bias = options_.bias ? pass.values(bias_) : typename Pass<T>::Values{};
  const PooledArray<T> partial = pass.take(layer_.partial_rows() * shape_.outputs);
  layer_.forward(x, weight.data(), bias.data(), partial.data(), out);
}

template <class T>
void RowModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* dout, T* dx) {
  // The gathered gradients of all rows are kept for the weight's gradient.
  kept.gradients.clear();
  kept.gradients.push_back(pass.take(all_rows_elements()));
  PooledArray<T> unwanted;
  if (dx == nullptr) {  // it comes with the gathered rows
    unwanted = pass.take(in_elements());
    dx = unwanted.data();
  }
  const auto weight = pass.values(weight_);
  layer_.input_gradient(dout, weight.data(), kept.gradients.front().data(), dx);
}

template <class T>
void RowModule<T>::weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) {
  const T* all = shape_.sequence_parallel ? kept.gradients.front().data() : dout;
  if (pass.by_sample != nullptr) {
    const std::int64_t outputs = shape_.outputs, inputs = layer_.inputs();
    SampleSums<T>& sums = *pass.by_sample;
    if (options_.bias) add_sample_rows(pass, bias_, all, outputs);
    sums.add(pass, weight_, outputs * inputs, [&](std::int64_t row, T* to) {
      sums.multiply(all + row * outputs, outputs, outputs, x + row * inputs, inputs, inputs, to);
    });
    kept.gradients.clear();
    return;
  }
  pass.add_gradient(weight_, [&](T* to, T beta) { layer_.weight_gradient(all, x, beta, to); });
  pass.ready(weight_);
  kept.gradients.clear();
  if (!options_.bias) return;
  add_replicated_gradient<T>(pass, bias_, shape_.outputs, shape_.sequence_parallel ? &*group_ : nullptr,
                             [&](T* to) { layer_.bias_gradient(dout, T{0}, to); });
}

template class ColumnModule<float>;
template class ColumnModule<double>;
template class RowModule<float>;
template class RowModule<double>;

}  // namespace sinew::parallel
