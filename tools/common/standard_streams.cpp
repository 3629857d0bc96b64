#include "standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include <fmt/format.h>

namespace sinew::tools {
namespace {

bool nobody_reads(int descriptor) {
  pollfd end{descriptor, POLLOUT, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

void open_missing_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one: those below are open by now.
    [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
  }
}

bool output_arrived(std::string_view program) {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  const int reason = errno;
  if (std::cout.good() && flushed && std::ferror(stdout) == 0) return true;
  if (nobody_reads(STDOUT_FILENO)) return true;
  std::cerr << fmt::format("{}: standard output: {}; what was printed is lost or incomplete\n", program,
                           reason != 0 ? std::strerror(reason) : "a write failed");
  return false;
}

}  // namespace sinew::tools
