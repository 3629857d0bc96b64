#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/token_places.hpp>
#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

namespace sinew::parallel {

/// The first module of a model over tokens: a VocabularyEmbedding of MicroBatch::tokens.
/// Shape:  it takes no elements; out [own rows, width].
/// Errors: as VocabularyEmbedding.
template <class T>
class SINEW_API EmbeddingModule final : public Module<T> {
 public:
  EmbeddingModule(const LayerGroup& group, const EmbeddingShape& shape, double deviation = 0.02,
                  TableOwner owner = TableOwner::Module);

  std::int64_t in_elements() const override { return 0; }
  std::int64_t out_elements() const override { return layer_.own_rows() * shape_.width; }
  ArrayCounts forward_arrays(bool /*keeps*/) const override { return {room_elements()}; }
  ArrayCounts backward_arrays() const override { return {room_elements()}; }
  std::string_view name() const override { return shape_.name; }
  bool runs_on_devices() const override { return !group_.invariant; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  /// Room for all rows. Without sequence parallelism it is not needed.
  std::int64_t room_elements() const noexcept { return shape_.sequence_parallel ? shape_.rows * shape_.width : 0; }

  void add_sample_gradients(Pass<T>& pass, const T* dout);

  LayerGroup group_;
  EmbeddingShape shape_;
  double deviation_;
  TableOwner owner_;
  VocabularyEmbedding<T> layer_;
  std::int32_t table_ = -1;
};

/// Adds a learnt vector to each row, by the row's position in its sequence. Every rank has the whole table
/// "NAME.weight" [positions, width].
/// Shape:  x, out [own rows, width].
/// Source: GPT-2.
template <class T>
class SINEW_API PositionModule final : public Module<T> {
 public:
  PositionModule(const LayerGroup& group, std::string name, const TokenPlaces& places, std::int64_t width,
                 double deviation = 0.02);

  std::int64_t in_elements() const override { return places_.own_rows() * width_; }
  std::int64_t out_elements() const override { return in_elements(); }
  bool needs_input() const override { return false; }
  ArrayCounts backward_arrays() const override {
    const bool gathers = group_.invariant && group_.sequence_parallel;
    const std::int64_t rows = group_.invariant ? 0 : places_.length();
    return {(gathers ? places_.rows() : rows) * width_};
  }
  bool runs_on_devices() const override { return !group_.invariant; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  Communicator* summed() const { return group_.sequence_parallel ? &*group_.tensor : nullptr; }

  LayerGroup group_;
  std::string name_;
  TokenPlaces places_;
  std::int64_t width_;
  double deviation_;
  std::vector<std::int64_t> own_positions_;  // of this rank's rows
  PlacedCopy<std::int64_t> placed_;          // of the same
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
  ArrayCounts kept_arrays() const override { return {in_elements()}; }
  std::string_view name() const override { return shape_.name; }
  bool needs_input() const override { return false; }
  bool runs_on_devices() const override { return shape_.leaves == 0; }
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
extern template class PositionModule<float>;
extern template class PositionModule<double>;
extern template class PredictionModule<float>;
extern template class PredictionModule<double>;

}  // namespace sinew::parallel
