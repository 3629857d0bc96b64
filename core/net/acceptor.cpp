#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <sinew/core/log.hpp>
#include <sinew/core/net/acceptor.hpp>

namespace sinew {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);  // before the next attempt after accept4() has failed

}  // namespace

Acceptor::Acceptor(EventLoop& loop, Listener listener, std::function<bool()> has_room,
                   std::function<void(FileDescriptor)> take)
    : listener_(std::move(listener)),
      has_room_(std::move(has_room)),
      take_(std::move(take)),
      pause_(loop),
      watch_(loop.watch(listener_.socket.get(), {.read = true}, [this] { accept(); })) {}

void Acceptor::resume() {
  pause_.stop();
  watch_.want({.read = true});
}

void Acceptor::accept() {
  while (has_room_()) {
    FileDescriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      take_(std::move(socket));
      continue;
    }
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    log::debug("accepting a connection at {}: {}", listener_.address.text(), std::generic_category().message(error));
    pause_.start(kPause, [this] { resume(); });
    break;
  }
  watch_.want({});
}

}  // namespace sinew
