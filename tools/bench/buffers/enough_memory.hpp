#pragma once

#include <cstdint>
#include <string>

namespace sinew::tools {

/// MemAvailable of /proc/meminfo in bytes; 0 where the file cannot be read.
std::uint64_t available_memory();

/// The reason why a host with `available` bytes has no room for buffers of `bytes` bytes in all. Empty: there is room.
/// If a process takes more memory than there is, the kernel kills it without a message, and maybe other processes, too.
std::string lack_of_memory(std::uint64_t bytes, std::uint64_t available);

}  // namespace sinew::tools
