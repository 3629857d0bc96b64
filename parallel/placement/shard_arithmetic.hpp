#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/placement/tensor.hpp>

// Arithmetic of shards. Placements must be valid.
namespace sinew::parallel {

/// Returns whether the cut leaves parts of one length for each of `extents`.
bool cuts_evenly(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) noexcept;

/// For each dimension, the extents that boxes of the tensor have on any rank, ascending, each once.
using Extents = std::vector<std::vector<std::int64_t>>;
Extents whole_extents(const TensorSpec& spec);
Extents local_extents(const TensorSpec& spec, const Factorisation& mesh);

/// Elements of the largest box. Equal on all ranks.
std::uint64_t most_elements(const Extents& extents) noexcept;

/// The extents that result from cutting each of `extents`.
std::vector<std::int64_t> cut_extents(const Shard& shard, int parts, const std::vector<std::int64_t>& extents);

/// As local_box, without its checks.
Box box_of(const TensorSpec& spec, const Factorisation& mesh, int rank);

/// The box that each rank of the group holds, by index. The group is along `axis` and contains `rank`.
std::vector<Box> boxes_along(const TensorSpec& spec, std::string_view axis, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
