#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <sinew/collectives/hierarchy/levels.hpp>
#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/call/cost.hpp>

namespace sinew {

/// The name of the algorithm in plans and rules.
inline constexpr std::string_view kHierarchical = "hierarchical";

/// The collective whose algorithm runs first inside the parts.
constexpr Collective first_inside(Collective c) noexcept {
  return c == Collective::AllReduce ? Collective::ReduceScatter : c;
}

/// True if the hierarchical algorithm of this collective moves runs of chunks. Then its calls have one segment.
constexpr bool moves_runs(Collective c) noexcept { return c == Collective::AllToAll || c == Collective::AllToAllV; }

/// A collective that is composed of collectives on parts of the group, such as the ranks of each host. It runs inside
/// each part, then across the parts, then inside again. Across, the ranks with the same stripe run an algorithm. Every
/// byte crosses to another part once. If parts have different sizes, the data have as many stripes as the largest part
/// has ranks, and each part deals the stripes over its ranks.
/// - all_reduce: reduce_scatter inside, all_reduce across, all_gather inside.
/// - reduce_scatter: reduce_scatter of every block inside, reduce_scatter across.
/// - all_gather: all_gather across, all_gather of the received blocks inside.
/// - all_to_all: inside, each block goes to the rank that has the receiver's number in its part. From there, one
///   message goes across. This is for short blocks.
/// - all_to_all_v: as all_to_all. Each message has the sizes of its blocks in front (schedule/sized_messages.hpp).
/// - broadcast: across among one rank of each part, then inside. reduce: the reverse.
/// With several levels, the collective across the parts of one level is hierarchical on the next level.
/// The result is one program. It is verified as a whole, and its segments overlap on all levels.
/// Source: Kielmann et al., MagPIe, 1999 (levels); Luo et al., HAN, 2020 (segments of a call on several levels at a
/// time); NCCL 2.12, PXN, 2022 (all_to_all through the local rank with the receiver's number).
struct HierarchicalAlgorithm {
  Levels levels;
  std::string_view inside = "direct";  ///< the algorithm inside parts
  std::string_view across = "ring";    ///< the algorithm across parts

  /// Returns yes if there are parts and both algorithms can run the collectives that this one needs, on all ranks and
  /// on the ranks of each part. If the canonical order is needed, the parts must be nodes of the canonical tree.
  SINEW_API Availability supports(const CollectiveDesc& desc, int ranks) const;
  /// Builds the program of one rank. `in_place` may change copies and dependencies, but not messages.
  SINEW_API Program build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const;
  /// True if messages between two ranks leave their part of the last level.
  bool crosses(int rank, int peer) const noexcept {
    const std::vector<int>& part = levels.part_of.back();
    return part[static_cast<std::size_t>(rank)] != part[static_cast<std::size_t>(peer)];
  }
};

}  // namespace sinew
