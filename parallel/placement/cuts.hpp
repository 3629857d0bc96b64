#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/parallel/placement/rows.hpp>
#include <sinew/parallel/placement/tensor.hpp>

// Arithmetic of shards, of placements that are valid.
namespace sinew::parallel {

/// Does such a cut leave parts of one length, whichever of `extents` is cut?
bool cuts_evenly(const Shard& shard, int parts, const std::vector<std::int64_t>& extents) noexcept;

/// Per dimension the extents that boxes of the tensor have, on whatever rank; ascending, each once.
using Extents = std::vector<std::vector<std::int64_t>>;
Extents whole_extents(const TensorSpec& spec);
Extents local_extents(const TensorSpec& spec, const Factorisation& mesh);

/// Elements of the largest box. Equal on all ranks.
std::uint64_t most_elements(const Extents& extents) noexcept;

/// The extents that come of cutting each of `extents`.
std::vector<std::int64_t> cut_extents(const Shard& shard, int parts, const std::vector<std::int64_t>& extents);

/// local_box without the checks.
Box box_of(const TensorSpec& spec, const Factorisation& mesh, int rank);

/// What each rank of the group along `axis` that `rank` is in holds, by index.
std::vector<Box> boxes_along(const TensorSpec& spec, std::string_view axis, const Factorisation& mesh, int rank);

}  // namespace sinew::parallel
