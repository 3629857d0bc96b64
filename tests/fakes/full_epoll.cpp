#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include <fakes/full_epoll.hpp>

namespace {

std::atomic<bool> is_full{false};
std::atomic<int> refusals{0};

}  // namespace

/// Before libc's, for the libraries of this program as well.
extern "C" __attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int descriptor,
                                                                epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && is_full) {
    ++refusals;
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event));
}

namespace sinew::test {

FullEpoll::FullEpoll() {
  refusals = 0;
  is_full = true;
}

FullEpoll::~FullEpoll() { is_full = false; }

int FullEpoll::refused() const { return refusals; }

}  // namespace sinew::test
