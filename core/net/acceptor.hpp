#pragma once

#include <functional>

#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/stream_socket.hpp>

namespace sinew {

/// Accepts the connections of one listening socket. New connections wait in the kernel while the owner has no room for
/// them, and while this process may open no more descriptors.
/// Thread: the loop's.
class SINEW_API Acceptor {
 public:
  /// `has_room`: called before each connection is accepted. If it returns false, nothing is accepted until resume().
  /// `take`:     receives each connection. Its socket is non-blocking and closed on exec.
  /// Errors:     Error{System} if this user has too many epoll watches (fs.epoll.max_user_watches).
  Acceptor(EventLoop& loop, Listener listener, std::function<bool()> has_room,
           std::function<void(FileDescriptor)> take);

  const SocketAddress& address() const noexcept { return listener_.address; }
  void resume();

 private:
  void accept();

  Listener listener_;
  std::function<bool()> has_room_;
  std::function<void(FileDescriptor)> take_;
  EventLoop::Timer pause_;
  EventLoop::Watch watch_;  // destroyed before the socket that it watches
};

}  // namespace sinew
