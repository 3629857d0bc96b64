#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sinew::soak {

/// What a process takes of its machine.
struct Footprint {
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t mappings = 0;
  std::map<std::string, int> kinds;  ///< how many descriptors of each kind: "TCP listener", "UNIX socket", "[eventpoll]"
};

/// Of this process. What the allocator holds back without need is given to the system first.
Footprint footprint_now();

/// The kinds of which `after` has another number than `before`, such as "TCP socket: 3 before, 5 after".
std::string changes(const Footprint& before, const Footprint& after);

}  // namespace sinew::soak
