#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew::tcp {

/// Something with a socket.
class Handler {
 public:
  /// The socket can be read (or has ended), or written.
  virtual void ready(bool readable, bool writable) = 0;

 protected:
  ~Handler() = default;
};

/// Something that must look at the clock now and then.
class Timed {
 public:
  virtual void tick(Clock::time_point now) = 0;

 protected:
  ~Timed() = default;
};

/// The transport's sockets in one epoll descriptor, which others may sleep on, and a slow clock that stands still
/// unless somebody asked for it: no clock is read and no timer runs while connections just work.
class Poller {
 public:
  Poller();

  /// Returns 0, or errno: the kernel may be out of memory or watches (max_user_watches).
  [[nodiscard]] int add(int socket, Handler& handler, bool want_write) noexcept;
  /// Of a socket that was added: needs no memory.
  void want_write(int socket, Handler& handler, bool want) noexcept;
  /// No event of this handler is delivered after it returns, of the batch at work neither.
  void remove(int socket, Handler& handler) noexcept;

  void add_timed(Timed& timed);
  void remove_timed(Timed& timed) noexcept;

  /// Handles what is there now, a batch at most; returns how many events it was.
  int poll();
  bool anything_ready() const noexcept;
  int descriptor() const noexcept { return epoll_.get(); }

 private:
  void run_clock(bool on) noexcept;
  void tick();

  FileDescriptor epoll_;
  FileDescriptor timer_;
  std::array<epoll_event, 64> batch_{};
  int batch_at_ = 0;
  int batch_end_ = 0;
  std::vector<Timed*> timed_;
  std::size_t timed_at_ = 0;
};

}  // namespace sinew::tcp
