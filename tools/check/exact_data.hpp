#pragma once

#include <cstdint>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

#include "exact_values.hpp"

namespace sinew::check {

/// The data of one call on `ranks` ranks. `salt` makes the data of calls differ, so that a stale buffer is noticed.
struct Pattern {
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  int ranks = 1;
  std::uint32_t salt = 0;
};

/// Writes the elements of `rank` from `first` on into `to`.
void fill(const Pattern& pattern, int rank, std::uint64_t first, Buffer to);

/// The number of elements of `found` that differ from the combination over all ranks, from element `first` on.
std::uint64_t wrong_combined(const Pattern& pattern, std::uint64_t first, ConstBuffer found);
/// The number of elements of `found` that differ from the elements of `rank`, from `first` on.
std::uint64_t wrong_copied(const Pattern& pattern, int rank, std::uint64_t first, ConstBuffer found);

}  // namespace sinew::check
