#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

namespace sinew::parallel {

/// The first module of a model over tokens: a VocabularyEmbedding of MicroBatch::tokens.
/// Shape:  it takes no elements; out [own rows, width].
/// Errors: as VocabularyEmbedding.
template <class T>
class SINEW_API EmbeddingModule final : public Module<T> {
 public:
  EmbeddingModule(const LayerGroup& group, const EmbeddingShape& shape, double deviation = 0.02);

  std::int64_t in_elements() const override { return 0; }
  std::int64_t out_elements() const override { return layer_.own_rows() * shape_.width; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  PooledArray<T> room(Pass<T>& pass) const;

  EmbeddingShape shape_;
  double deviation_;
  VocabularyEmbedding<T> layer_;
  std::int32_t table_ = -1;
};

/// The last module of a model over tokens: the loss of MicroBatch::targets, a VocabularyCrossEntropy of its input. It
/// adds to Pass::loss, and multiplies gradients by Pass::loss_scale.
/// Shape:  x [rows, own vocabulary]; it makes no elements.
/// Errors: as VocabularyCrossEntropy.
template <class T>
class SINEW_API PredictionModule final : public Module<T> {
 public:
  PredictionModule(const LayerGroup& group, const CrossEntropyShape& shape);

  std::int64_t in_elements() const override { return shape_.rows * loss_.mine().count(); }
  std::int64_t out_elements() const override { return 0; }
  void declare(ParameterList& /*list*/) override {}
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& /*pass*/, const T* /*x*/, Kept<T>& /*kept*/, const T* /*dout*/) override {}

 private:
  CrossEntropyShape shape_;
  VocabularyCrossEntropy<T> loss_;
};

extern template class EmbeddingModule<float>;
extern template class EmbeddingModule<double>;
extern template class PredictionModule<float>;
extern template class PredictionModule<double>;

}  // namespace sinew::parallel
