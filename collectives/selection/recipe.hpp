#pragma once

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/hierarchy/ordered.hpp>
#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// What programs are built by: one algorithm for all ranks alike, in their order or another, or a composition.
class SINEW_API Recipe {
 public:
  Recipe(const Algorithm& algorithm) noexcept : how_(&algorithm) {}  // an algorithm is a recipe
  Recipe(Ordered ordered) noexcept : how_(std::move(ordered)) {}
  Recipe(HierarchicalAlgorithm hierarchical) noexcept : how_(std::move(hierarchical)) {}

  std::string_view name() const noexcept;
  /// nullptr: one algorithm.
  const HierarchicalAlgorithm* hierarchical() const noexcept { return std::get_if<HierarchicalAlgorithm>(&how_); }
  /// Builds the program of a rank. If the operator is PreMulSum, the program scales the rank's contributions first.
  /// With a codec it encodes the rank's messages. A hierarchical algorithm encodes only messages between the outermost
  /// parts.
  Program build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const;
  /// Every rank's program. in_place: one per rank; its length is the number of ranks.
  Schedule build_all(const CollectiveDesc& desc, const std::vector<bool>& in_place) const;

 private:
  std::variant<const Algorithm*, Ordered, HierarchicalAlgorithm> how_;
};

}  // namespace sinew
