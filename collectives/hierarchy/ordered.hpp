#pragma once

#include <vector>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// An algorithm whose first place rank order[0] takes, and so on: a ring through near_order() leaves each host once,
/// wherever the launcher has put the ranks, and the first rounds of a tree stay inside hosts.
struct Ordered {
  const Algorithm* algorithm = nullptr;
  std::vector<int> order;  ///< all ranks, by their places

  /// Who takes which place makes a difference to the calls that go round or down a tree. The reason names what it
  /// would break: runs of chunks, or the order that sums are asked in.
  SINEW_API static Availability supports(const Algorithm& algorithm, const CollectiveDesc& desc, int ranks);
  /// Pure; a rank builds only its own program. In place may change copies and dependencies, never messages.
  SINEW_API Program build(const CollectiveDesc& desc, int rank, bool in_place) const;
};

}  // namespace sinew
