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

/// What plans and rules call it.
inline constexpr std::string_view kHierarchical = "hierarchical";

/// Of what an algorithm for the inside is looked up first.
constexpr Collective first_inside(Collective c) noexcept {
  return c == Collective::AllReduce ? Collective::ReduceScatter : c;
}

/// Whether its composition moves runs of chunks, so that it cannot be cut into segments.
constexpr bool moves_runs(Collective c) noexcept { return c == Collective::AllToAll; }

/// A collective put together from those of parts of the group: inside the parts, across them among equals, inside them
/// again. Every byte crosses to another part once. With parts of unequal size the data are cut into as many stripes as
/// the largest has ranks, and every part deals its stripes over its ranks.
///   all_reduce      reduce-scatter inside, all-reduce across, all-gather inside
///   reduce_scatter  reduce-scatter inside (every block), reduce-scatter across
///   all_gather      all-gather across, all-gather inside (what has come)
///   all_to_all      inside to whoever has the taker's place, across in one message from there; for short blocks
///   broadcast       across among one rank of each part, then inside; reduce: the reverse
/// With several levels what runs across the parts of one level is a composition on the next.
/// The result is one program, verified as a whole, whose segments overlap on all levels.
/// Source: Kielmann et al., MagPIe, 1999 (levels); Luo et al., HAN, 2020 (pieces of a call on several levels at a
/// time); NCCL 2.12, PXN, 2022 (all_to_all by way of the taker's equal).
struct HierarchicalAlgorithm {
  Levels levels;
  std::string_view inside = "direct";  ///< an algorithm of each collective that runs inside
  std::string_view across = "ring";    ///< and across

  /// Is there such an algorithm for all that this collective needs, and are there parts at all? Where the canonical
  /// order is needed parts must be nodes of that tree.
  SINEW_API Availability supports(const CollectiveDesc& desc, int ranks) const;
  /// Pure; a rank builds only its own program. In place may change copies and dependencies, never messages.
  SINEW_API Program build(const CollectiveDesc& desc, int rank, int ranks, bool in_place) const;
  /// Whether messages between two ranks leave their part on the last level.
  bool crosses(int rank, int peer) const noexcept {
    const std::vector<int>& part = levels.part_of.back();
    return part[static_cast<std::size_t>(rank)] != part[static_cast<std::size_t>(peer)];
  }
};

}  // namespace sinew
