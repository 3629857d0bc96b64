#include "block.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../layers/attention.hpp"
#include "../layers/mlp.hpp"
#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {
namespace {

using sinew::parallel::Recompute;

template <class T>
Replicated<T> replicated(const BlockShape& shape, sinew::Communicator& group) {
  return Replicated<T>(shape.part.sequence_parallel ? &group : nullptr);
}

template <class T>
LayerNorm<T> norm_of(const BlockShape& shape, sinew::Communicator& group, int weight) {
  return {weight, weight + 1, shape.whole.width, replicated<T>(shape, group)};
}

template <class T>
std::unique_ptr<Mixer<T>> mixer_of(const BlockShape& shape, int number, const BlockSurroundings<T>& all) {
  if (shape.whole.has_scan(number))
    return std::make_unique<ScanMixer<T>>(shape, number, all.group, all.blas, *all.scan);
  return std::make_unique<AttentionMixer<T>>(shape, number, all.group, all.blas, *all.attention, all.masks);
}

/// A block's experts, as one sees them from outside.
template <class T>
class ExpertsFeedforward final : public Feedforward<T> {
 public:
  ExpertsFeedforward(const BlockShape& shape, int number, Recompute recompute, const BlockSurroundings<T>& all)
      : experts_(shape, number, recompute, all.blas, *all.experts, replicated<T>(shape, all.group)),
        loss_scale_(&all.loss_scale) {}

  void forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>&,
               T* out) override {
    experts_.forward(store, weights, a.normed2.data(), *a.experts, out);
  }
  void again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>&) override {
    experts_.again(store, weights, a.normed2.data(), *a.experts);
  }
  void backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                const T* d) override {
    experts_.backward(store, weights, a.normed2.data(), *a.experts, d, *loss_scale_, scratch.rows.data());
  }

 private:
  Experts<T> experts_;
  const double* loss_scale_;
};

template <class T>
std::unique_ptr<Feedforward<T>> feedforward_of(const BlockShape& shape, int number, Recompute recompute,
                                               const BlockSurroundings<T>& all) {
  if (shape.whole.has_experts(number)) return std::make_unique<ExpertsFeedforward<T>>(shape, number, recompute, all);
  return std::make_unique<Mlp<T>>(shape, number, recompute, all.group, all.blas, replicated<T>(shape, all.group));
}

}  // namespace

template <class T>
Block<T>::Block(const BlockShape& shape, int number, Recompute recompute, const BlockSurroundings<T>& all)
    : shape_(shape),
      recompute_(recompute),
      places_(&all.places),
      pass_(&all.pass),
      drop1_(all.seed, fmt::format("blocks.{}.mixer", number), shape.whole.dropout),
      drop2_(all.seed, fmt::format("blocks.{}.mlp", number), shape.whole.dropout),
      norm1_(norm_of<T>(shape, all.group, block_parameters(shape.whole, number).norm1)),
      norm2_(norm_of<T>(shape, all.group, block_parameters(shape.whole, number).norm2)),
      mixer_(mixer_of(shape, number, all)),
      feedforward_(feedforward_of(shape, number, recompute, all)) {}

template <class T>
std::size_t Block<T>::mixer_elements(const BlockShape& shape, int number) {
  return shape.whole.has_scan(number) ? ScanMixer<T>::kept_for(shape) : AttentionMixer<T>::kept_for(shape);
}

template <class T>
std::int64_t Block<T>::deferred_elements(const BlockShape& shape, int number) {
  const std::int64_t row =
      shape.whole.has_experts(number) ? 0 : shape.part.bent(shape.whole).count() + shape.whole.width;
  return shape.rows() * row +
         (shape.whole.has_scan(number) ? ScanMixer<T>::deferred_for(shape) : AttentionMixer<T>::deferred_for(shape));
}

template <class T>
std::int64_t Block<T>::widest_row(const BlockShape& shape) {
  std::int64_t widest =
      shape.whole.experts.count > 0 && shape.whole.experts.every == 1 ? 0 : shape.part.bent(shape.whole).count();
  if (shape.whole.has_attention()) widest = std::max(widest, AttentionMixer<T>::row_of(shape));
  if (shape.whole.has_scans()) widest = std::max(widest, ScanMixer<T>::row_of(shape));
  return widest;
}

template <class T>
BlockActivations<T> Block<T>::all(Activations& memory, const BlockShape& shape, std::size_t mixer_elements,
                                  bool has_mlp, bool has_experts) {
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    return memory.take<T>(static_cast<std::size_t>(rows * columns));
  };
  const std::int64_t rows = shape.rows(), own = shape.own_rows(), width = shape.whole.width;
  const std::int64_t bent = has_mlp ? shape.part.bent(shape.whole).count() : 0;
  if (has_experts) memory.reckon<T>(Experts<T>::rows_for(shape));
  return {.in = take(own, width),
          .normed1 = take(own, width),
          .mixer = memory.take<T>(mixer_elements),
          .middle = take(own, width),
          .normed2 = take(own, width),
          .up = take(rows, bent),
          .bent = take(rows, bent),
          .mean1 = take(own, 1),
          .factor1 = take(own, 1),
          .mean2 = take(own, 1),
          .factor2 = take(own, 1),
          .experts = has_experts ? std::make_shared<ExpertsKept<T>>() : nullptr};
}

template <class T>
BlockActivations<T> Block<T>::kept(Activations& memory, const BlockShape& shape, int number, Recompute recompute,
                                   const BlockActivations<T>& shared) {
  const bool has_experts = shape.whole.has_experts(number);
  if (recompute == Recompute::None) return all(memory, shape, mixer_elements(shape, number), !has_experts, has_experts);
  BlockActivations<T> a = shared;
  if (has_experts) {
    a.up = a.bent = {};
    a.experts = std::make_shared<ExpertsKept<T>>();
    if (recompute == Recompute::Full) a.experts->rows = shared.experts->rows;
    if (recompute == Recompute::Selective) memory.reckon<T>(Experts<T>::rows_for(shape));
  }
  const auto own = [&](std::span<T>& of) { of = memory.take<T>(of.size()); };
  own(a.in);
  if (recompute == Recompute::Full) return a;
  a.mixer = memory.take<T>(mixer_elements(shape, number));
  for (std::span<T>* of : {&a.middle, &a.mean1, &a.factor1, &a.mean2, &a.factor2}) own(*of);
  if (!has_experts) own(a.up);
  return a;
}

template <class T>
void Block<T>::inner(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  norm1_.forward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
  mixer_->forward(store, weights, a.normed1.data(), a.mixer, scratch, a.middle.data());
  places_->drop(drop1_, *pass_, a.middle.data());
  add(a.middle.data(), a.in.data(), a.in.size());
  norm2_.forward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
}

template <class T>
void Block<T>::forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                       T* out) {
  inner(store, weights, a, scratch);
  feedforward_->forward(store, weights, a, scratch, out);
  places_->drop(drop2_, *pass_, out);
  add(out, a.middle.data(), a.middle.size());
}

template <class T>
void Block<T>::again(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch) {
  switch (recompute_) {
    case Recompute::None: return;
    case Recompute::Full: inner(store, weights, a, scratch); break;
    case Recompute::Selective:
      norm1_.again(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), a.normed1.data());
      norm2_.again(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), a.normed2.data());
  }
  feedforward_->again(store, weights, a, scratch);
}

template <class T>
const T* Block<T>::through(const sinew::parallel::Dropout& dropout, const BlockScratch<T>& scratch, const T* d) const {
  if (shape_.whole.dropout == 0) return d;
  std::copy_n(d, scratch.dropped.size(), scratch.dropped.data());
  places_->drop(dropout, *pass_, scratch.dropped.data());
  return scratch.dropped.data();
}

template <class T>
void Block<T>::backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                        T* d) {
  again(store, weights, a, scratch);
  T* narrow_rows = scratch.rows.data();
  feedforward_->backward(store, weights, a, scratch, through(drop2_, scratch, d));
  norm2_.backward(store, weights, own_rows(), a.middle.data(), a.mean2.data(), a.factor2.data(), narrow_rows, d);
  mixer_->backward(store, weights, a.normed1.data(), a.mixer, through(drop1_, scratch, d), scratch);
  norm1_.backward(store, weights, own_rows(), a.in.data(), a.mean1.data(), a.factor1.data(), narrow_rows, d);
}

template class Block<float>;
template class Block<double>;

}  // namespace gpt
