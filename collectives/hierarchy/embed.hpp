#pragma once

#include <span>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/builder.hpp>

namespace sinew {

/// Where a part's ranks and chunks are in the whole.
struct Placement {
  std::span<const int> ranks;  ///< by their places in the part
  std::vector<Slice> in;       ///< one chunk of the whole each; without chunks: the whole has none there
  std::vector<Slice> out;
};

/// States the steps of `part`, a program for some of the ranks, as steps of the whole. A step that moves a class of
/// chunks which the whole does not have is left out, as on all ranks of the part.
/// Shape: the part moves chunks one by one (not Program::whole). Its order of messages in turns is not kept.
void embed(ProgramBuilder& whole, const Program& part, const Placement& at);

}  // namespace sinew
