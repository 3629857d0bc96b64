#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// The sum of the loss over tokens, and the number of these tokens. Means over microbatches, data and sequences are
/// then right however the tokens are spread.
struct TokenLoss {
  double sum = 0;  ///< nats
  std::int64_t tokens = 0;
};

/// The shape of the logits, and the options of the loss.
struct CrossEntropyShape {
  std::string name{};
  std::int64_t rows = 0, vocabulary = 0;
  Shard cut{};                  ///< of the vocabulary: any lengths, 0 included
  double label_smoothing = 0;   ///< 0 to 1, spread over the whole vocabulary
  std::int64_t ignored = -100;  ///< rows with this target do not count
  std::int64_t leaves = 0;      ///< leaf blocks of the vocabulary, as LinearShape::leaves
};

/// -log softmax(logits)[target] of logits whose columns are cut. With label smoothing e, it is (1 - e) times this, plus
/// e times its mean over the vocabulary.
/// Shape:    logits [rows, own vocabulary]. targets: all rows, the same on all ranks.
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument on all ranks alike, naming tensor and row. It is thrown for a target outside the
///           vocabulary. It is also thrown for logits that are not numbers, with the first rank that has one.
/// Cost:     an all_reduce of one maximum for each row, and one of 3 sums for each row, all in f64. The backward pass
///           sends nothing.
/// Source:   Megatron-LM, vocab_parallel_cross_entropy.
template <class T>
class SINEW_API VocabularyCrossEntropy {
 public:
  /// Errors: InvalidArgument for leaf blocks on a device.
  VocabularyCrossEntropy(CallGroup group, const std::string& axis, const CrossEntropyShape& shape,
                         const ComputeDevice& device = {});

  const Rows& mine() const noexcept { return mine_; }

  /// Replaces logits by their softmax.
  TokenLoss forward(T* logits, std::span<const std::int64_t> targets);
  /// Replaces the softmax by `scale` times the gradient of the sum.
  void backward(T* softmax, std::span<const std::int64_t> targets, double scale);
  /// The loss of each row of the last forward pass. 0 if the row does not count.
  const std::vector<double>& losses() const noexcept { return losses_; }

 private:
  void require(std::span<const std::int64_t> targets) const;
  void find_maxima(const T* logits);
  /// For columns [first, last): writes the sums of exponentials and of logits to `to`, and replaces logits by their
  /// exponentials.
  void add_columns(T* logits, double most, std::int64_t first, std::int64_t last, double* to) const;
  void sum_exponentials(T* logits, std::span<const std::int64_t> targets);
  void sum_leaves(T* logits, std::span<const std::int64_t> targets);
  [[noreturn]] void complain_of(std::int64_t row);

  CallGroup group_;
  std::string axis_;
  CrossEntropyShape shape_;
  Rows mine_;
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
  PlacedArray<double> maxima_, sums_;  // by row; of the latter three each: exponentials, the target's, all
  PlacedArray<double> not_numbers_;    // by row: 1 if this rank has a logit that is not a number
  PlacedCopy<std::int64_t> targets_;
  std::vector<double> read_;    // the host's copy of the sums
  std::vector<double> losses_;  // by row
  std::vector<double> leaves_;  // of a row: exponentials and all of each leaf block
};

extern template class VocabularyCrossEntropy<float>;
extern template class VocabularyCrossEntropy<double>;

}  // namespace sinew::parallel
