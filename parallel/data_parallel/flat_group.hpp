#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/step_plan.hpp>

namespace sinew::parallel {

/// Parameters of one dtype, or their gradients, one after the other in flat memory that is cut into as many equal
/// shards as an axis has ranks; a shard may end within a parameter.
/// Units: elements. Each parameter begins at a multiple of 64 bytes, and its gradient, in its own dtype, at the same
///        element and at a multiple of 64 bytes, too; so does each shard. What is between is zero and stays so.
struct FlatGroup {
  DType dtype = DType::F32;
  std::vector<std::int32_t> parameters;  ///< in the order in which they lie
  std::vector<std::int64_t> offsets;     ///< of each
  std::int64_t shard_elements = 0;
  int shards = 1;

  std::int64_t elements() const noexcept { return shard_elements * shards; }
  std::int64_t bytes() const noexcept { return elements() * static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t shard_bytes() const noexcept { return shard_elements * static_cast<std::int64_t>(size_of(dtype)); }
};

/// A parameter's elements that lie in a shard: [first, last) of the parameter, from `at` of the shard on.
struct ShardPart {
  std::int32_t parameter = 0;
  std::int64_t first = 0, last = 0;
  std::int64_t at = 0;
};

SINEW_API FlatGroup flat_group(const std::vector<DataParameter>& parameters, const std::vector<std::int32_t>& members,
                               int shards);

/// The same places, of gradients.
SINEW_API FlatGroup of_gradients(FlatGroup group, const std::vector<DataParameter>& parameters);

/// What lies in shard `index`, in order; nothing of parameters that lie elsewhere.
SINEW_API std::vector<ShardPart> parts_of(const FlatGroup& group, const std::vector<DataParameter>& parameters,
                                          int index);

}  // namespace sinew::parallel
