#include "outlet.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace sinew::run {
namespace {

/// O_NONBLOCK is a matter of the open file, which is not ours alone: this is one of our own.
FileDescriptor opened_again(int descriptor) {
  struct stat status {};
  const bool is_pipe = ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_pipe && ::isatty(descriptor) == 0) return {};
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

bool has_room(int descriptor) {
  pollfd room{descriptor, POLLOUT, 0};
  return ::poll(&room, 1, 0) == 1;
}

}  // namespace

Outlet::Outlet(EventLoop& loop, int descriptor, Events events)
    : events_(std::move(events)), given_(descriptor), own_(opened_again(descriptor)) {
  const auto ready = [this] {
    flush();
    judge();
  };
  watch_ = loop.watch(this->descriptor(), {}, ready);
}

void Outlet::put(std::string_view bytes) {
  if (waiting() == 0) moved_ = Clock::now();
  text_ += bytes;
  if (!watched_) flush();
  judge();
}

void Outlet::drop() {
  text_.clear();
  sent_ = 0;
  watch(false);
  judge();
}

void Outlet::flush() {
  while (waiting() != 0 && has_room(descriptor()) && write_some()) {
  }
  watch(waiting() != 0);
}

/// At most PIPE_BUF: a pipe with room takes so much at once, even one that blocks.
bool Outlet::write_some() {
  const std::string_view next = std::string_view(text_).substr(sent_, PIPE_BUF);
  const ssize_t written = ::write(descriptor(), next.data(), next.size());
  if (written < 0) {
    const int reason = errno;
    if (reason == EAGAIN || reason == EINTR) return false;
    drop();
    events_.refused(reason);
    return true;
  }
  moved_ = Clock::now();
  sent_ += static_cast<std::size_t>(written);
  if (waiting() == 0 || sent_ >= kFull) text_.erase(0, std::exchange(sent_, 0));
  return true;
}

void Outlet::watch(bool on) {
  watched_ = on;
  watch_.want({.write = on});
}

void Outlet::judge() {
  const bool full = full_ ? waiting() > kFull / 2 : waiting() >= kFull;
  if (std::exchange(full_, full) != full) events_.full(full);
}

}  // namespace sinew::run
