#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sinew::soak {

/// The memory and the descriptors that a process holds.
struct Footprint {
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t mappings = 0;
  std::map<std::string, int>
      kinds;  ///< the number of descriptors of each kind, such as "TCP listener" or "[eventpoll]"
};

/// Counts what this process holds. First the allocator returns its unused memory to the system.
Footprint footprint_now();

/// Lists the kinds whose numbers differ, such as "TCP socket: 3 before, 5 after".
std::string changes(const Footprint& before, const Footprint& after);

}  // namespace sinew::soak
