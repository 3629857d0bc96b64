#include <sys/uio.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include <sinew/transports/shm/memory/direct_read.hpp>

namespace sinew::shm {

int read_process(pid_t pid, std::byte* to, std::uint64_t address, std::size_t bytes) noexcept {
  while (bytes > 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EFAULT;
    to += n;
    address += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

Status direct_read_status(int error_number, std::string_view whose, int rank, pid_t pid) {
  if (error_number == ESRCH) return {Code::PeerLost, fmt::format("{} (process {}) is gone", whose, pid), rank};
  return {Code::System,
          fmt::format("reading the memory of {} (process {}) by process_vm_readv: {}", whose, pid,
                      std::generic_category().message(error_number)),
          rank};
}

}  // namespace sinew::shm
