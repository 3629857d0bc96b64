#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sinew/core/error.hpp>

namespace sinew::shm {

/// Reads `bytes` at `address` of another process (process_vm_readv). Returns 0 or the kernel's errno.
int read_process(pid_t pid, std::byte* to, std::uint64_t address, std::size_t bytes) noexcept;

/// Converts that errno to the status of a call that needs `rank`. Its text names the rank as `whose`.
Status direct_read_status(int error_number, std::string_view whose, int rank, pid_t pid);

}  // namespace sinew::shm
