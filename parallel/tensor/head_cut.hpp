#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// The heads of an attention layer that a rank of a tensor-parallel group has. Query heads are cut as evenly as
/// possible. With grouped queries, `heads / key_value_heads` query heads share one head of keys and values.
/// If every such group falls on one rank, keys and values are cut with their queries. Otherwise, for example with fewer
/// key-value heads than ranks, all ranks hold the weights of all key-value heads. Nothing is padded or repeated.
/// Source: Ainslie et al., GQA, arXiv 2305.13245.
struct HeadCut {
  Rows queries{};
  Rows key_values{};           ///< the key-value heads that this rank's queries use
  bool key_values_cut = true;  ///< false: each rank has the weights of all key-value heads; their gradients are Partial

  /// The key-value head of a query head, counted from the first of `key_values`.
  std::int64_t key_value_of(std::int64_t query, std::int64_t queries_each) const noexcept {
    return query / queries_each - key_values.first;
  }
};

/// A rank may have no head at all. It then takes part in exchanges with no data.
/// Errors: InvalidArgument for fewer than 1 heads or ranks, and if the heads are not a multiple of the key-value heads,
///         with the nearest number that is.
SINEW_API HeadCut cut_heads(std::int64_t heads, std::int64_t key_value_heads, int rank, int ranks);

}  // namespace sinew::parallel
