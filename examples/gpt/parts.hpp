#pragma once

#include <algorithm>
#include <cstdint>

#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

#include "shape.hpp"

namespace gpt {

/// What one rank has of a model and its sequences. Of a tensor-parallel group: heads of attention, the MLP's inner
/// elements, channels of a scan, rows of the vocabulary, each as even as can be. Of a context-parallel one: positions.
struct Part {
  int rank = 0, ranks = 1;
  bool sequence_parallel = false;  ///< between layers it has a part of the rows, too
  bool decomposed = false;         ///< sinew::parallel::LinearShape::decomposed
  int context_rank = 0, context_ranks = 1;
  int head_sharers = 1;                                 ///< of the latter
  int expert_rank = 0, expert_ranks = 1;                ///< of those that experts are spread over
  int expert_tensor_rank = 0, expert_tensor_ranks = 1;  ///< of those that share each of them
  bool invariant = false;  ///< sums are trees over leaf blocks (sinew/parallel/invariant/leaves.hpp)

  sinew::parallel::Rows of(std::int64_t extent) const noexcept {
    return sinew::parallel::rows_of({}, rank, ranks, extent);
  }
  sinew::parallel::HeadCut heads(const Shape& shape) const {
    return sinew::parallel::cut_heads(shape.heads, shape.shared_heads(), rank, ranks);
  }
  /// Elements of an activation that its heads make.
  sinew::parallel::Rows mixed(const Shape& shape) const noexcept {
    const auto heads = of(shape.heads);
    return {heads.first * shape.head_width(), heads.last * shape.head_width()};
  }
  sinew::parallel::Rows bent(const Shape& shape) const noexcept { return of(4 * std::int64_t{shape.width}); }
  sinew::parallel::Rows experts(const Shape& shape) const noexcept {
    return sinew::parallel::rows_of({}, expert_rank, expert_ranks, shape.experts.count);
  }
  /// Of an expert's inner elements.
  sinew::parallel::Rows of_expert(const Shape& shape) const noexcept {
    return sinew::parallel::rows_of({}, expert_tensor_rank, expert_tensor_ranks, shape.inner());
  }
  sinew::parallel::Rows channels(const Shape& shape) const noexcept { return of(shape.channels()); }
  sinew::parallel::Rows vocabulary() const noexcept { return of(kVocabulary); }
  /// Rows that it has between layers, of so many.
  sinew::parallel::Rows rows(std::int64_t all) const noexcept {
    return sequence_parallel ? of(all) : sinew::parallel::Rows{0, all};
  }
  sinew::parallel::SequenceCut positions(const Shape& shape) const {
    return sinew::parallel::SequenceCut::zig_zag(shape.context, context_ranks);
  }
};

/// Ranks that may share layers, or a sequence, where sums are to be layout-invariant: each has the same number of leaf
/// blocks, at least one; of positions two, as they are cut in zig-zag.
inline int most_invariant_tp(const Shape& shape) noexcept {
  std::int64_t most = sinew::parallel::leaves_of(kVocabulary);
  for (const std::int64_t heads : {shape.heads, shape.shared_heads()})
    most = std::min(
        {most, sinew::parallel::power_of_two_in(heads), sinew::parallel::leaves_of(heads * shape.head_width())});
  return static_cast<int>(most);
}
inline std::int64_t most_invariant_cp(const Shape& shape) noexcept {
  return std::max<std::int64_t>(sinew::parallel::leaves_of(shape.context) / 2, 1);
}

/// A stage of a pipeline: blocks that follow each other, with what is before the first and behind the last one.
struct StagePart {
  int first_block = 0, last_block = 0;
  bool embeds = true, predicts = true;
  int micro_batches = 1;  ///< in flight at a time
  bool defers = false;    ///< gradients of matrices are made apart from those of inputs
};

inline StagePart whole_model(const Shape& shape) noexcept { return {0, shape.layers}; }

}  // namespace gpt
