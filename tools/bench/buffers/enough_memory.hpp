#pragma once

#include <cstdint>
#include <string>

namespace sinew::tools {

/// MemAvailable of /proc/meminfo in bytes; 0 where the file cannot be read.
std::uint64_t available_memory();

/// The reason not to ask a host for buffers of `bytes` bytes in all, given the bytes that it has available. Empty:
/// there is room. A process that takes more than there is gets killed by the kernel without a message, maybe others,
/// too.
std::string lack_of_memory(std::uint64_t bytes, std::uint64_t available);

}  // namespace sinew::tools
