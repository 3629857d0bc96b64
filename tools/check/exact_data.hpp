#pragma once

#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

#include "exact_values.hpp"

namespace sinew::check {

/// Who gives what: one call on `ranks` ranks. `salt` tells calls apart, so that a stale buffer is seen.
struct Pattern {
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  int ranks = 1;
  std::uint32_t salt = 0;
};

/// Writes rank's elements from `first` on into `to`.
void fill(const Pattern& pattern, int rank, std::uint64_t first, Buffer to);

/// Elements of `found` that differ from the combination over all ranks of the elements from `first` on.
std::uint64_t wrong_combined(const Pattern& pattern, std::uint64_t first, ConstBuffer found);
/// Elements of `found` that differ from rank's own elements from `first` on.
std::uint64_t wrong_copied(const Pattern& pattern, int rank, std::uint64_t first, ConstBuffer found);

}  // namespace sinew::check
