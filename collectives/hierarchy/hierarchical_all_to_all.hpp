#pragma once

#include <vector>

#include <sinew/collectives/hierarchy/level_parts.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {

/// Builds the steps of one rank of an all_to_all over the parts of the coarsest level. It is for many short blocks: a
/// message to another part contains the blocks of all ranks of this part for one rank there.
class HierarchicalAllToAll {
 public:
  HierarchicalAllToAll(int rank, ProgramBuilder& to) : rank_(rank), to_(to) {}

  void compose(const Levels& levels, const Ranks& ranks);

 private:
  /// The ranks of other parts whose stripes the rank with this number in this part carries.
  static Ranks takers(const LevelParts& parts, int place);
  /// By place in this part: a run of what is for this rank, which is copied there, and of what is for its takers().
  std::vector<Slice> collect(const LevelParts& parts, int ranks);
  /// Scratch for one block from each of these ranks.
  Slice scratch_for(const Ranks& givers);

  int rank_;
  ProgramBuilder& to_;
};

}  // namespace sinew
