#pragma once

// Placements: they say how a tensor lies on a mesh. The room holds placements, the boxes that follow from them, and
// collectives that check placements before they send. It may include the mesh and the room `common`.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::parallel {

/// Every rank of the axis has the same data.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

/// Rank i of the axis has rows [offsets[i], offsets[i+1]) of dimension `dim`. Parts may have any lengths, 0 included.
/// offsets empty: parts are as even as possible. Part i of P of n rows is [i*n/P, (i+1)*n/P).
struct Shard {
  int dim = 0;
  std::vector<std::int64_t> offsets{};
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Each rank of the axis has a contribution to the tensor, such as a gradient before its all_reduce. The tensor is the
/// reduction of all contributions by `op`.
struct Partial {
  ReduceOp op = ReduceOp::Sum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

using Placement = std::variant<Replicate, Shard, Partial>;

/// "Replicate", "Shard(0)", "Shard(0: 0, 3, 8)", "Partial(sum)".
SINEW_API std::string to_string(const Placement& placement);

/// Where a tensor lies along every axis. Along an axis that is not named it is replicated. If two axes shard one
/// dimension, the first one cuts it, and the second one cuts the parts of the first (FSDP over TP is {tp: Shard(0), dp:
/// Shard(0)}). If there are two Partials, the last one is combined first. This matters for a sum of maxima, for
/// example.
/// Source: the three kinds are those of PyTorch's DTensor; the order replaces its _StridedShard.
class SINEW_API Placements {
 public:
  struct Entry {
    std::string axis{};
    Placement placement{};
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  Placements() = default;
  /// Errors: InvalidArgument for an axis named twice.
  Placements(std::vector<Entry> entries);

  const Placement& along(std::string_view axis) const noexcept;
  /// All placements except Replicate, in the order of cutting.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// The same placements with another one along `axis`. The new placement comes last: it is cut, or combined,
  /// innermost. If the axis already has that placement, nothing changes.
  Placements with(std::string_view axis, Placement placement) const;
  /// "dp: Shard(0), tp: Partial(sum)"; "replicated" if there are no entries.
  std::string to_string() const;
  friend bool operator==(const Placements&, const Placements&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace sinew::parallel
