#pragma once

#include <cstdint>

namespace sinew::soak {

/// What a process takes of its machine.
struct Footprint {
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t mappings = 0;
};

/// Of this process. What the allocator holds back without need is given to the system first.
Footprint footprint_now();

}  // namespace sinew::soak
