#pragma once

#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// Ok, or what is wrong with the schedules that this recipe builds for a call, all ranks apart and all in place.
/// Groups of more than 64 ranks are not looked at: the proof would take longer than a user waits.
/// Cost: twice verify().
SINEW_API Status prove(const Recipe& recipe, const CollectiveDesc& desc, int ranks);

}  // namespace sinew
