#pragma once

#include <vector>

#include <sinew/collectives/hierarchy/levels.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// All ranks, part by part on every level: whoever goes along this order, and back to its beginning, leaves each part
/// once. Parts come in the order of their first ranks, and so do ranks within the nearest.
SINEW_API std::vector<int> near_order(const Levels& levels, int ranks);

}  // namespace sinew
