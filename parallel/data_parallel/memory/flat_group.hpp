#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/parameter/parameter.hpp>

namespace sinew::parallel {

/// Parameters of one dtype, or their gradients, laid out one after the other in flat memory. The memory is cut into as
/// many equal shards as the axis has ranks. A shard may end in the middle of a parameter.
/// Units: elements. Each parameter begins at a multiple of 64 bytes. Its gradient has a dtype of its own, and begins at
///        the same element, which is a multiple of 64 bytes too. So does each shard. Padding between parameters is zero
///        and stays zero.
struct FlatGroup {
  DType dtype = DType::F32;
  std::vector<std::int32_t> parameters;  ///< in the order in which they lie in memory
  std::vector<std::int64_t> offsets;     ///< where each parameter begins
  std::int64_t shard_elements = 0;
  int shards = 1;

  std::int64_t elements() const noexcept { return shard_elements * shards; }
  std::int64_t bytes() const noexcept { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t shard_bytes() const noexcept { return shard_elements * static_cast<std::int64_t>(size_of(dtype)); }
};

/// The elements [first, last) of a parameter that lie in a shard, beginning at element `at` of the shard.
struct ShardPart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  std::int64_t at = 0;
};

/// Lays out these parameters, for so many shards.
SINEW_API FlatGroup flat_group(const std::vector<DataParameter>& parameters, const std::vector<std::int32_t>& members,
                               int shards);

/// The layout of the gradients: the same offsets, in the dtype of the gradients.
SINEW_API FlatGroup of_gradients(FlatGroup group, const std::vector<DataParameter>& parameters);

/// The parts of parameters that lie in shard `index`, in the order of memory.
SINEW_API std::vector<ShardPart> parts_of(const FlatGroup& group, const std::vector<DataParameter>& parameters,
                                          int index);

}  // namespace sinew::parallel
