#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/hierarchy/level_parts.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {

using Slices = std::vector<Slice>;

/// Builds the steps of one rank for a HierarchicalAlgorithm, level by level. A slice with count 0 means that the rank
/// has no such block.
class HierarchicalBuilder {
 public:
  HierarchicalBuilder(const HierarchicalAlgorithm& how, const CollectiveDesc& desc, int rank, ProgramBuilder& to)
      : how_(how), desc_(desc), rank_(rank), to_(to) {}

  /// The number of chunks of an all_reduce of these ranks. It is equal on all of them.
  static int chunks(const HierarchicalAlgorithm& how, const CollectiveDesc& desc, const Ranks& ranks,
                    std::size_t level);

  void all_reduce(const Ranks& ranks, std::size_t level, const Slices& in, const Slices& out);
  void all_gather(const Ranks& ranks, std::size_t level, Slice in, const Slices& out);
  void reduce_scatter(const Ranks& ranks, std::size_t level, const Slices& in, Slice out);
  void broadcast(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out);
  void reduce(const Ranks& ranks, std::size_t level, int root, Slice in, Slice out);

 private:
  std::optional<LevelParts> parts_of(const Ranks& ranks, std::size_t& level) const {
    return sinew::parts_of(how_.levels, ranks, level, rank_);
  }
  /// Adds the steps of one algorithm among some ranks. `complete` says that its sums have the contributions of
  /// all ranks of the call.
  void run(Collective collective, std::string_view name, const Ranks& ranks, Slices in, Slices out, bool complete,
           int root = 0);

  const HierarchicalAlgorithm& how_;
  const CollectiveDesc& desc_;
  int rank_;
  ProgramBuilder& to_;
};

}  // namespace sinew
