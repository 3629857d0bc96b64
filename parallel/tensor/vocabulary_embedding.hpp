#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/compute/layer_math.hpp>
#include <sinew/parallel/compute/placed_array.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/layer_parameters.hpp>
#include <sinew/parallel/tensor/pairs.hpp>

namespace sinew::parallel {

/// Looks tokens up. A token that a rank does not have gives zeros on that rank. The sum over the ranks is the result.
/// Shape:    tokens: all rows, the same on all ranks. table [own vocabulary, width]. `whole` is room for [rows, width].
///           out and dout [own_rows(), width].
/// Thread:   the World's.
/// Lifetime: ends before the communicator.
/// Errors:   InvalidArgument naming table, row and token for a token outside the vocabulary, on all ranks alike.
///           Otherwise as PairExchange.
/// Source:   Megatron-LM, VocabParallelEmbedding.
template <class T>
class SINEW_API VocabularyEmbedding {
 public:
  VocabularyEmbedding(CallGroup group, const std::string& axis, const EmbeddingShape& shape,
                      const ComputeDevice& device = {});

  const Rows& mine() const noexcept { return mine_; }
  std::int64_t own_rows() const noexcept { return own_rows_; }
  /// The table on this rank, as layer_parameters.hpp describes it.
  DataParameter parameter(const DataParameter& like = {}) const;

  void forward(std::span<const std::int64_t> tokens, const T* table, T* whole, T* out);
  /// to = beta * to + the gradient, [own vocabulary, width].
  void backward(std::span<const std::int64_t> tokens, const T* dout, T* whole, T beta, T* to);

 private:
  void require(std::span<const std::int64_t> tokens) const;

  EmbeddingShape shape_;
  std::string axis_;
  GroupPlace place_;
  Rows mine_;
  std::int64_t own_rows_;
  PairExchange pair_;
  ComputeDevice device_;
  std::shared_ptr<const LayerMath<T>> math_;
  PlacedCopy<std::int64_t> tokens_;
};

extern template class VocabularyEmbedding<float>;
extern template class VocabularyEmbedding<double>;

}  // namespace sinew::parallel
