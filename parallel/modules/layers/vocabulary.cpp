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
      layer_(group.tensor, "tp", shape_, group.blas->device()) {}

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
    : group_(group), name_(std::move(name)), places_(places), width_(width), deviation_(deviation) {
  for (std::int64_t r = 0; r < places_.own_rows(); ++r) own_positions_.push_back(places_.position_of(r));
}

template <class T>
void PositionModule<T>::declare(ParameterList& list) {
  table_ = list.add(whole_parameter(list.like(), name_ + ".weight", {places_.length(), width_}),
                    normally_distributed(deviation_));
}

template <class T>
void PositionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& /*kept*/, T* out) {
  const auto table = pass.values(table_);
  if (out != x) pass.math().copy(x, out, in_elements());
  pass.math().gather_rows(placed_.of(pass.device(), own_positions_), 0, places_.length(), table.data(),
                          places_.own_rows(), width_, T{1}, out);
}

template <class T>
void PositionModule<T>::input_gradient(Pass<T>& pass, const T* /*x*/, Kept<T>& /*kept*/, const T* dout, T* dx) {
  if (dx != nullptr) pass.math().copy(dout, dx, in_elements());
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
    pass.math().fill(to, T{0}, elements);
    pass.math().scatter_rows(placed_.of(pass.device(), own_positions_), 0, places_.length(), dout, places_.own_rows(),
                             width_, to);
  });
}

template <class T>
PredictionModule<T>::PredictionModule(const LayerGroup& group, const CrossEntropyShape& shape)
    : shape_(shape), loss_(group.tensor, "tp", with_leaves(shape, group), group.blas->device()) {}

template <class T>
void PredictionModule<T>::forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* /*out*/) {
  kept.arrays.push_back(pass.take(in_elements()));
  pass.math().copy(x, kept.arrays[0].data(), in_elements());
  pass.settle();
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
  pass.math().copy(kept.arrays[0].data(), dx, in_elements());
  loss_.backward(dx, pass.batch.targets, pass.loss_scale);
}

template class EmbeddingModule<float>;
template class EmbeddingModule<double>;
template class PositionModule<float>;
template class PositionModule<double>;
template class PredictionModule<float>;
template class PredictionModule<double>;

}  // namespace sinew::parallel
