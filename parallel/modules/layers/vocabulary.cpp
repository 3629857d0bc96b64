#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/modules/layers/replicated_gradient.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/vector_kernels.hpp>

namespace sinew::parallel {
namespace {

CrossEntropyShape with_leaves(CrossEntropyShape shape, const LayerGroup& group) {
  if (group.invariant) shape.leaves = leaves_of(shape.vocabulary);
  return shape;
}

}  // namespace

template <class T>
EmbeddingModule<T>::EmbeddingModule(const LayerGroup& group, const EmbeddingShape& shape, double deviation,
                                    TableOwner owner)
    : group_(group),
      shape_(group.with_rows(shape)),
      deviation_(deviation),
      owner_(owner),
      layer_(group.tensor, "tp", shape_) {}

template <class T>
void EmbeddingModule<T>::declare(ParameterList& list) {
  table_ = add_table(list, owner_, layer_.parameter(list.like()), deviation_);
}

template <class T>
void EmbeddingModule<T>::forward(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, T* out) {
  const auto table = pass.values(table_);
  const PooledArray<T> whole = pass.take(room_elements());
  layer_.forward(pass.batch.tokens, table.data(), whole.size() > 0 ? whole.data() : out, out);
  if (!group_.invariant) return;
  for (std::int64_t i = 0; i < out_elements(); ++i) out[i] += T{0};  // -0 of a whole table: +0, as a sum over ranks is
}

template <class T>
void EmbeddingModule<T>::input_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/,
                                        T* /*dx*/) {}

template <class T>
void EmbeddingModule<T>::add_sample_gradients(Pass<T>& pass, const T* dout) {
  SampleSums<T>& sums = *pass.by_sample;
  const std::int64_t width = shape_.width, rows = sums.of_sample().rows;
  const AllRows<T> d =
      all_rows_of(pass, shape_.sequence_parallel ? &*group_.tensor : nullptr, dout, shape_.rows, width);
  const Rows mine = layer_.mine();
  const auto gradient = [&](std::int64_t first, T* to) {
    std::map<std::int64_t, std::vector<std::int64_t>> by_token;
    for (std::int64_t r = 0; r < rows; ++r) by_token[pass.batch.tokens[at(first + r)]].push_back(r);
    for (std::int64_t token = mine.first; token < mine.last; ++token, to += width) {
      const auto found = by_token.find(token);
      const std::span<const std::int64_t> some =
          found == by_token.end() ? std::span<const std::int64_t>() : found->second;
      sum_some_leaf_rows(d.data + first * width, sums.of_sample(), some, width, width, to);
    }
  };
  sums.add(pass, table_, mine.count() * width, gradient, owner_ == TableOwner::Module ? ParameterUse{} : kEmbeds);
}

template <class T>
void EmbeddingModule<T>::weight_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout) {
  if (pass.by_sample != nullptr) return add_sample_gradients(pass, dout);
  const PooledArray<T> whole = pass.take(room_elements());
  pass.add_gradient(table_, [&](T* to, T beta) { layer_.backward(pass.batch.tokens, dout, whole.data(), beta, to); });
  pass.ready(table_);
}

template <class T>
PositionModule<T>::PositionModule(const LayerGroup& group, std::string name, const TokenPlaces& places,
                                  std::int64_t width, double deviation)
    : group_(group), name_(std::move(name)), places_(places), width_(width), deviation_(deviation) {}

template <class T>
void PositionModule<T>::declare(ParameterList& list) {
  table_ = list.add(whole_parameter(list.like(), name_ + ".weight", {places_.length(), width_}),
                    normally_distributed(deviation_));
}

template <class T>
void PositionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  const auto table = pass.values(table_);
  if (out != x) std::copy_n(x, in_elements(), out);
  for (std::int64_t r = 0; r < places_.own_rows(); ++r)
    kernels::add(out + r * width_, table.data() + places_.position_of(r) * width_, static_cast<std::size_t>(width_));
}

template <class T>
void PositionModule<T>::input_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx != nullptr) std::copy_n(dout, in_elements(), dx);
}

template <class T>
void PositionModule<T>::weight_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout) {
  const std::int64_t elements = places_.length() * width_;
  if (pass.by_sample != nullptr) {
    const AllRows<T> d = all_rows_of(pass, summed(), dout, places_.rows(), width_);
    const std::int64_t rows = pass.by_sample->of_sample().rows;
    pass.by_sample->add(pass, table_, elements, [&](std::int64_t first, T* to) {
      std::fill_n(to, elements, T{0});
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(d.data + (first + r) * width_, width_, to + places_.positions()[at(r)] * width_);
    });
    return;
  }
  add_replicated_gradient<T>(pass, table_, elements, summed(), [&](T* to) {
    std::fill_n(to, elements, T{0});
    for (std::int64_t r = 0; r < places_.own_rows(); ++r)
      kernels::add(to + places_.position_of(r) * width_, dout + r * width_, static_cast<std::size_t>(width_));
  });
}

template <class T>
PredictionModule<T>::PredictionModule(const LayerGroup& group, const CrossEntropyShape& shape)
    : shape_(shape), loss_(group.tensor, "tp", with_leaves(shape, group)) {}

template <class T>
void PredictionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* /*out*/) {
  kept.arrays.push_back(pass.take(in_elements()));
  std::copy_n(x, in_elements(), kept.arrays[0].data());
  const TokenLoss loss = loss_.forward(kept.arrays[0].data(), pass.batch.targets);
  if (pass.repeats) return;
  pass.loss.sum += loss.sum;
  pass.loss.tokens += loss.tokens;
  if (pass.by_sample == nullptr) return;
  for (const double of_row : loss_.losses()) pass.by_sample->losses().add(of_row);
}

template <class T>
void PredictionModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& kept, const T* /*dout*/, T* dx) {
  if (dx == nullptr) return;
  std::copy_n(kept.arrays[0].data(), in_elements(), dx);
  loss_.backward(dx, pass.batch.targets, pass.loss_scale);
}

template class EmbeddingModule<float>;
template class EmbeddingModule<double>;
template class PositionModule<float>;
template class PositionModule<double>;
template class PredictionModule<float>;
template class PredictionModule<double>;

}  // namespace sinew::parallel
