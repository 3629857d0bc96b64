#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sinew::parallel {

/// Which heads of an attention layer a rank of a tensor-parallel group has. Query heads are cut as evenly as they can
/// be; `heads / key_value_heads` of them share a head of keys and values (grouped queries; 1: each its own).
/// Where every such group falls on one rank, keys and values are cut with their queries. Where one does not, as with
/// fewer of them than ranks, all ranks hold the weights of all: nothing is padded or repeated.
/// Source:   Ainslie et al., GQA, arXiv 2305.13245.
struct HeadCut {
  Rows queries;
  Rows key_values;             ///< that this rank's queries look at
  bool key_values_cut = true;  ///< false: the weights of all are on every rank, and their gradients are Partial

  /// That a query head looks at, counted from the first of `key_values`.
  std::int64_t key_value_of(std::int64_t query, std::int64_t queries_each) const noexcept {
    return query / queries_each - key_values.first;
  }
};

/// Ranks may have no head at all: they take part in exchanges, with nothing.
/// Errors: InvalidArgument where there are fewer than 1 heads or ranks, or the heads are no multiple of those of keys
///         and values, with the nearest number that would do.
SINEW_API HeadCut cut_heads(std::int64_t heads, std::int64_t key_value_heads, int rank, int ranks);

}  // namespace sinew::parallel
