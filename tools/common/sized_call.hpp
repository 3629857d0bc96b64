#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/call/collective.hpp>

namespace sinew::tools {

/// A call with the counts that it refers to.
struct SizedCall {
  CollectiveDesc desc;
  std::vector<std::uint64_t> counts;
};

/// The smallest size of `what`, as tools print sizes. 1 where each rank has counts of its own, because any size will
/// do.
std::uint64_t smallest_bytes(CollectiveDesc what, int ranks) noexcept;

/// The call of `what` on so many bytes, rounded down to whole elements. The v-forms get equal parts.
SizedCall sized_call(CollectiveDesc what, std::uint64_t bytes, int ranks);

}  // namespace sinew::tools
