#include "sized_call.hpp"

#include <algorithm>

namespace sinew::tools {

std::uint64_t smallest_bytes(CollectiveDesc what, int ranks) noexcept {
  what.count = 1;
  return std::max<std::uint64_t>(what.bytes(ranks), 1);
}

SizedCall sized_call(CollectiveDesc what, std::uint64_t bytes, int ranks) {
  SizedCall call{what, {}};
  call.desc.count = bytes / smallest_bytes(what, ranks);
  if (has_local_counts(what.collective)) call.desc.largest_bytes = bytes;
  if (has_shared_counts(what.collective)) {
    const auto parts = static_cast<std::size_t>(ranks);
    call.counts.assign(parts, bytes / size_of(what.dtype) / parts);
    call.desc.counts = call.counts;
  }
  return call;
}

}  // namespace sinew::tools
