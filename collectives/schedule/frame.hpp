#pragma once

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>

namespace sinew {

/// A rank's program without steps: the In and Out chunks that the collective gives it, with their classes.
/// chunks: into how many all_reduce, broadcast and reduce are cut; the others have one per rank or pair.
SINEW_API Program frame(const CollectiveDesc& desc, int rank, int ranks, bool in_place, int chunks);

}  // namespace sinew
