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

/// The TLS of one connection, on a socket that never blocks. The first calls make the handshake.
/// Bytes count as sent when they are encrypted. If the kernel has no room for them, they wait here. At most one record
/// of 16 KiB and answers to the peer may wait, or else the session fails. Until trust() is called, at most
/// kMostUnproven bytes of a peer are read. A peer whose first byte is not that of a TLS handshake costs no memory.
/// The side that accepts the connection reads a hello when the whole hello has come. It answers the first hello only
/// with a cookie, which the peer must send back in a second hello (RFC 8446, 4.2.2). The cookie is valid for one
/// address and port. So recorded hellos that are sent again do not cost this side a key exchange and a signature.
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

  /// Sets what the accepting sessions of a context need.
  static void prepare(ssl_ctx_st* context) noexcept;

 private:
  friend struct TlsSocketBio;
  friend struct TlsCookie;
  struct Release {
    void operator()(ssl_st* session) const noexcept;
  };

  void begin() noexcept;
  bool begun() noexcept;
  bool hello_has_come() noexcept;
  bool sent_cookie_back() noexcept;
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
  bool wants_cookie_;  // of the side that accepts, until the peer has sent it back
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
