#pragma once

#include <cstdint>
#include <string>

namespace sinew::tools {

/// What MemAvailable of /proc/meminfo says, in bytes; 0 where that cannot be read.
std::uint64_t available_memory();

/// Why buffers of `bytes` bytes in all are not to be asked of a host that has so many available; empty: it has them.
/// Whoever takes more than there is is ended by the kernel without a word, and maybe others with him.
std::string lack_of_memory(std::uint64_t bytes, std::uint64_t available);

}  // namespace sinew::tools
