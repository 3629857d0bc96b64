#include "apart.hpp"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::abuse {
namespace {

bool bring_loopback_up() {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return socket && ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

}  // namespace

void live_apart() {
  const bool is_apart = ::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0 && bring_loopback_up();
  if (!is_apart)
    fmt::print(stderr, "no network and /dev/shm of one's own ({}): what others leave there counts as left by ranks\n",
               std::strerror(errno));
}

}  // namespace sinew::abuse
