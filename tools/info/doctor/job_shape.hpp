#pragma once

#include <cstdint>

namespace sinew::doctor {

/// A job as one of its hosts sees it.
struct JobShape {
  int ranks = 1;
  int ranks_here = 1;
  int hosts = 1;
  int networks = 1;              ///< of this host that tcp would use
  int cores = 1;                 ///< of this host, in the affinity masks of its ranks together
  std::uint64_t rank_bytes = 0;  ///< that each rank will take
};

}  // namespace sinew::doctor
