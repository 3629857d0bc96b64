#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/net/tls_context.hpp>

struct ssl_st;

namespace sinew {

/// One connection's TLS, between plain bytes and a socket that never blocks; the handshake is made by the first calls.
/// What has been encrypted counts as sent: it waits here where the kernel has no room, a record of 16 KiB and answers
/// to the peer at most, or the session fails. Until trust() no more than kMostUnproven bytes of a peer are read, and
/// who does not begin as TLS does costs no memory.
class TlsSession {
 public:
  static constexpr std::size_t kMostUnproven = 64 << 10;
  static constexpr std::size_t kMostUnsent = 96 << 10;

  TlsSession(std::shared_ptr<const TlsContext> context, int socket, bool connects);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// As sendmsg(2); EPROTO: trouble() says.
  ssize_t send(std::span<const iovec> pieces, int flags) noexcept;
  /// As recvmsg(2), but goes on until the room is full or no more is there. `held`: of what the kernel has handed over.
  ssize_t receive(std::span<const iovec> room, bool held) noexcept;
  /// More is read at once from now on, so that what has come may be here where no event tells of it.
  void read_ahead() noexcept;
  /// The peer has proven the secret.
  void trust() noexcept { trusted_ = true; }
  /// The handshake is over.
  bool is_open() const noexcept;
  /// Has encrypted bytes that the kernel has not taken.
  bool wants_write() const noexcept { return !unsent_.empty(); }
  void flush() noexcept;
  /// May give bytes that the kernel does not have any more.
  bool holds() const noexcept;
  /// Says that nothing more will be sent.
  void finish() noexcept;
  /// What both ends of this connection, and nobody between them, know (RFC 9266); once there was something to receive.
  std::array<std::byte, 32> binding() const;
  const std::string& trouble() const noexcept { return trouble_; }

 private:
  friend struct TlsSocketBio;
  struct Release {
    void operator()(ssl_st* session) const noexcept;
  };

  void begin() noexcept;
  bool begun() noexcept;
  ssize_t record(std::span<const std::byte> plain) noexcept;
  ssize_t outcome(int result) noexcept;
  ssize_t fails(std::string trouble) noexcept;
  void put(std::span<const std::byte> bytes) noexcept;
  std::size_t push(std::span<const std::byte> bytes) noexcept;
  ssize_t get(std::span<std::byte> room) noexcept;
  std::string what_went_wrong() const;

  const std::shared_ptr<const TlsContext> context_;
  const int socket_;
  const bool connects_;
  std::vector<std::byte> unsent_;
  int flags_ = 0;          // of what is sent now
  int error_ = 0;          // of the socket, or EPROTO
  bool closed_ = false;    // by the peer, without a word
  bool shut_ = false;      // towards the kernel: only what it has handed over is read
  std::size_t heard_ = 0;  // before it was trusted
  bool trusted_ = false;
  std::uint64_t records_ = 0;
  int write_error_ = 0;  // of the socket: what comes is read on
  std::string trouble_;
  std::unique_ptr<ssl_st, Release>
      session_;  // null: nothing has come that could be TLS; its way out leads through here
};

}  // namespace sinew
