#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

class TlsSession;

/// An errno of send or receive that says: not now, ask again.
constexpr bool is_for_later(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// A stream socket that never blocks, plain or under TLS, with the manners of send(2) and recv(2). Move-only.
/// Under TLS the handshake is made by the first calls, which say EAGAIN until it is over; what was sent may wait here
/// for room in the kernel (wants_write), and goes with the process; what has come may be here (holds), where no event
/// tells of it.
class SINEW_API Socket {
 public:
  enum class End : std::uint8_t { Connects, Accepts };
  enum class From : std::uint8_t { Kernel, Held };
  using Binding = std::array<std::byte, 32>;

  Socket() noexcept;
  /// `tls` null: plain. May be connecting still.
  Socket(FileDescriptor descriptor, End end, const std::shared_ptr<const TlsContext>& tls);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int get() const noexcept { return descriptor_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(descriptor_); }

  /// Bytes taken, or -1 and errno; never a signal. EPROTO: trouble() says what.
  ssize_t send(std::span<const iovec> pieces, int flags = 0) noexcept;
  ssize_t send(std::span<const std::byte> bytes) noexcept;
  /// Bytes that came, 0 where the other side has finished, or -1 and errno. Less than the room: there are no more now.
  /// Held: nothing is asked of the kernel.
  ssize_t receive(std::span<const iovec> room, From from = From::Kernel) noexcept;
  ssize_t receive(std::span<std::byte> room) noexcept;

  /// A connection that is plain, or whose handshake is over: where send has no room, the kernel has none.
  bool is_open() const noexcept;
  /// The other side has proven the job's secret: until then little is taken of it.
  void trust() noexcept;
  /// Of a connection that carries much: fewer system calls, and from now on whoever waits for the descriptor has to ask
  /// holds() before. Until then no byte is read that nobody has asked for.
  void read_ahead() noexcept;
  /// Call send or flush when the descriptor can be written: what was sent has not left.
  bool wants_write() const noexcept;
  void flush() noexcept;
  /// receive(.., Held) may give something.
  bool holds() const noexcept;
  /// Nothing more is sent, and the other side is told; false: call again when the descriptor can be written.
  bool finish() noexcept;

  /// Under TLS, once something was received: what nobody between the two ends knows.
  std::optional<Binding> binding() const;
  /// Why an operation said EPROTO.
  std::string trouble() const;

 private:
  FileDescriptor descriptor_;
  std::unique_ptr<TlsSession> tls_;
  bool finished_ = false;
};

}  // namespace sinew
