#include "enough_memory.hpp"

#include <fstream>

#include <fmt/format.h>

#include <sinew/core/config.hpp>

namespace sinew::tools {

std::uint64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string label;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> label >> kib >> unit) {
    if (label == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::string lack_of_memory(std::uint64_t bytes, std::uint64_t available) {
  if (available == 0 || bytes <= available) return {};
  return fmt::format("the ranks of this host need {} for their buffers, and it has {} available", format_bytes(bytes),
                     format_bytes(available));
}

}  // namespace sinew::tools
