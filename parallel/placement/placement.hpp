#pragma once

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

/// Rank i of the axis has rows [offsets[i], offsets[i+1]) of dimension `dim`. Any lengths, 0 included.
/// offsets empty: as even as they can be, part i of P of n rows is [i*n/P, (i+1)*n/P).
struct Shard {
  int dim = 0;
  std::vector<std::int64_t> offsets;
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// The data are what `op` makes of those of all ranks of the axis: a gradient before its all_reduce.
struct Partial {
  ReduceOp op = ReduceOp::Sum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

using Placement = std::variant<Replicate, Shard, Partial>;

/// "Replicate", "Shard(0)", "Shard(0: 0, 3, 8)", "Partial(sum)".
SINEW_API std::string to_string(const Placement& placement);

/// Where a tensor is along every axis; an axis that is not named has Replicate. Where two axes shard one dimension the
/// one that comes first cuts it, the next one cuts that one's parts (FSDP over TP is {tp: Shard(0), dp: Shard(0)}).
/// Of two Partials, the one that comes last is combined first, which matters for a sum of maxima and the like.
/// Source: DTensor of PyTorch for the three kinds; the order replaces its _StridedShard.
class SINEW_API Placements {
 public:
  struct Entry {
    std::string axis;
    Placement placement;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  Placements() = default;
  /// Errors: InvalidArgument for an axis named twice.
  Placements(std::vector<Entry> entries);

  const Placement& along(std::string_view axis) const noexcept;
  /// Without those that replicate; in order of cutting.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// This, with another placement along one axis, which then comes last: it is cut, or combined, innermost. The
  /// placement that it has changes nothing.
  Placements with(std::string_view axis, Placement placement) const;
  /// "dp: Shard(0), tp: Partial(sum)"; "replicated" where nothing else is.
  std::string to_string() const;
  friend bool operator==(const Placements&, const Placements&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace sinew::parallel
