#pragma once

#include <cstdint>
#include <vector>

#include <sinew/core/call/collective.hpp>

namespace sinew::tools {

/// A call, and the counts that it refers to.
struct SizedCall {
  CollectiveDesc desc;
  std::vector<std::uint64_t> counts;
};

/// The smallest size, as tools print sizes, that `what` can have; where counts are of each rank any will do: 1.
std::uint64_t smallest_bytes(CollectiveDesc what, int ranks) noexcept;

/// `what` on so many bytes, an element's at most less; of the v-forms with equal parts.
SizedCall sized_call(CollectiveDesc what, std::uint64_t bytes, int ranks);

}  // namespace sinew::tools
