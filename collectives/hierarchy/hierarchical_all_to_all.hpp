#pragma once

#include <vector>

#include <sinew/collectives/hierarchy/level_parts.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {

/// Builds the steps of one rank of an all_to_all or all_to_all_v over the parts of the coarsest level. It is for many
/// short blocks: a message to another part contains the blocks of all ranks of this part for one rank there. In an
/// all_to_all_v a rank does not know the sizes of the blocks that it passes on. There ProgramBuilder::tell_sizes()
/// applies.
class HierarchicalAllToAll {
 public:
  HierarchicalAllToAll(int rank, ProgramBuilder& to) : rank_(rank), to_(to) {}

  void compose(const Levels& levels, const Ranks& ranks);

 private:
  /// Returns the ranks of other parts to which rank number `place` of this part sends the blocks of the whole part.
  static Ranks takers(const LevelParts& parts, int place);
  /// Exchanges blocks within this part. Returns a run of chunks from each other rank of the part, by place in the part:
  /// that rank's block for this rank, then its blocks for the takers() of this rank. The blocks for this rank are also
  /// copied to Out.
  std::vector<Slice> collect(const LevelParts& parts, int ranks);
  /// Returns new scratch for one block from each of these ranks.
  Slice scratch_for(const Ranks& givers);

  int rank_;
  ProgramBuilder& to_;
};

}  // namespace sinew
