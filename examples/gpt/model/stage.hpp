#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sinew/parallel/tensor/vocabulary_cross_entropy.hpp>
#include <sinew/parallel/tensor/vocabulary_embedding.hpp>

#include "activations.hpp"
#include "block.hpp"
#include "model.hpp"

namespace gpt {

/// What a micro-batch keeps from its forward to its backward pass, and what it reads.
template <class T>
struct StageSlot {
  std::vector<BlockActivations<T>> kept;            // by block of the stage
  std::span<T> last, normed, mean, factor, logits;  // of the head
  std::vector<std::int64_t> seen, targets;
  std::vector<sinew::parallel::AttentionMask> masks;
  Pass pass;
  Deferral<T> later{{}};
};

/// Where all that a stage computes with lies.
template <class T>
struct StageMemory {
  std::vector<StageSlot<T>> slots;
  std::span<T> d;  // the gradient on its way
  BlockScratch<T> scratch;
  std::span<T> room;  // of weights that are held in another type
};

/// Some blocks of a model that follow each other, on this rank, with embeddings before the first and the head behind
/// the last one.
template <class T>
class Stage {
 public:
  /// Lifetime: blas and ranks outlive it. alone: in the place of groups that there are not.
  /// sums: where gradients are added up sample by sample; null: as they come.
  Stage(const Shape& shape, const StagePart& blocks, const ModelOptions& options, Blas& blas, const ModelRanks& ranks,
        sinew::Communicator& alone, Routers& routers, SampleSums<T>* sums = nullptr);

  /// in, out [own rows, width]: of the stage before, and for the one behind; null where there is none.
  sinew::parallel::TokenLoss forward(Store& store, int slot, std::span<const std::uint8_t> sequences, int count,
                                     const Pass& pass, const T* in, T* out);
  void backward(Store& store, int slot, double scale, const T* dout, T* din);
  /// The same without gradients of matrices, and these.
  void backward_input(Store& store, int slot, double scale, const T* dout, T* din);
  void backward_weights(int slot) { open(slot).later.run(); }

  std::size_t held_bytes() const noexcept;
  /// What that will be for so many sequences at once.
  static std::size_t held_for(const BlockShape& shape, const StagePart& blocks, const ModelOptions& options);

 private:
  static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
  BlockShape block_shape() const noexcept { return {shape_, part_, count_}; }
  int own_rows() const { return static_cast<int>(block_shape().own_rows()); }

  static std::int64_t deferred_for(const BlockShape& shape, const StagePart& blocks);
  void lay_out(int count);
  static StageMemory<T> take(Activations& memory, const BlockShape& shape, const StagePart& blocks,
                             const ModelOptions& options);
  StageSlot<T>& open(int slot);
  void split(StageSlot<T>& slot, std::span<const std::uint8_t> sequences) const;
  void hand_on(std::span<T> values) const;
  template <class F>
  void for_each_position(const F& f) const;
  void embed(Store& store, StageSlot<T>& slot);
  void embed_backward(Store& store, StageSlot<T>& slot);
  void embed_backward_by_sample(Store& store, StageSlot<T>& slot);
  sinew::parallel::TokenLoss predict(Store& store, StageSlot<T>& slot);
  void predict_backward(Store& store, StageSlot<T>& slot, double scale);

  Shape shape_;
  StagePart blocks_of_;
  Part part_;
  ModelOptions options_;
  Blas* blas_;
  sinew::Communicator *group_, *head_sharers_, *ring_, *context_;
  ExpertsRanks experts_ranks_;
  SampleSums<T>* sums_;
  Replicated<T> replicated_;
  LayerNorm<T> final_norm_;
  int count_ = 0;
  Pass pass_;                                          // of the slot that is open
  double loss_scale_ = 1;                              // of the backward pass
  std::vector<sinew::parallel::AttentionMask> masks_;  // likewise
  std::optional<TokenPlaces> places_;
  std::optional<sinew::parallel::ContextAttention<T>> attention_;
  std::optional<ScanParts<T>> scan_;
  std::optional<ExpertsParts<T>> experts_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::optional<Columns<T>> head_;
  std::optional<sinew::parallel::VocabularyCrossEntropy<T>> loss_;
  std::optional<sinew::parallel::VocabularyEmbedding<T>> tokens_;
  std::unique_ptr<Activations> memory_;
  std::optional<Weights<T>> weights_;
  StageMemory<T> at_;
};

extern template class Stage<float>;
extern template class Stage<double>;

}  // namespace gpt
