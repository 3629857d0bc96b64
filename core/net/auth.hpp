#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// What a connection is for, stated by the side that connects and covered by both proofs.
struct AuthClaim {
  std::uint32_t service = 0;  ///< which protocol follows: a constant of its owner
  std::int32_t from_rank = -1;
  std::int32_t to_rank = -1;
  std::uint32_t channel = 0;   ///< the service's own
  std::uint64_t instance = 0;  ///< of the listener, random: a rank that came back is not the one that left
  friend bool operator==(const AuthClaim&, const AuthClaim&) = default;
};

/// Mutual proof that both ends of a fresh connection know the job's secret: three messages of fixed size (hello 64,
/// reply 64, proof 32 bytes), HMAC-SHA256 over role, claim and both sides' random numbers. No I/O and no clock: the
/// owner reads into room(), calls received(), writes to_send(), calls sent(), until state() is not Underway, and gives
/// up after a time of its own. The protocol's first byte may follow the last of to_send(). A side that hears TLS where
/// none is spoken says so, and (to_send, once Refused) tells the other in TLS's words.
/// Source: ISO/IEC 9798-4, three-pass mutual authentication.
class SINEW_API Authentication {
 public:
  enum class State : std::uint8_t { Underway, Proven, Refused };

  static constexpr std::size_t kHelloBytes = 64;
  static constexpr std::size_t kReplyBytes = 64;
  static constexpr std::size_t kProofBytes = 32;

  /// The side that connects. Errors: Error{InvalidArgument} where the secret is empty.
  static Authentication connector(const Bytes& secret, const AuthClaim& claim);
  /// The side that accepts takes claims with this service, to_rank and instance only; the rest is the connector's.
  static Authentication acceptor(const Bytes& secret, const AuthClaim& expected);

  /// Where the next bytes from the peer go; empty: none are wanted. Never reads past the handshake.
  std::span<std::byte> room() noexcept;
  void received(std::size_t bytes);
  /// What the proofs cover beside: bytes that both ends of the connection below have in common, and nobody else has.
  void bind(const std::array<std::byte, 32>& common) noexcept { common_ = common; }
  /// What must be written now; empty: nothing.
  std::span<const std::byte> to_send() const noexcept;
  void sent(std::size_t bytes) noexcept;

  /// Ends it, for a reason of the connection's.
  void refuse(std::string reason);

  /// How far the other side has come, each step of it once: a hello, a proof.
  int steps() const noexcept { return steps_; }
  State state() const noexcept { return state_; }
  /// Why it is Refused, for a debug line.
  const std::string& reason() const noexcept { return reason_; }
  /// The agreed claim; the acceptor may rely on it once Proven.
  const AuthClaim& claim() const noexcept { return claim_; }

 private:
  using Digest = std::array<std::byte, 32>;

  Authentication(const Bytes& secret, const AuthClaim& claim, bool connects);
  Digest proof(bool of_connector) const;
  void read_hello();
  void read_reply();
  void read_proof();
  void expect(std::size_t bytes) noexcept;
  bool speaks_otherwise();

  Bytes secret_;
  AuthClaim claim_;
  bool connects_;
  State state_ = State::Underway;
  std::array<std::byte, 64> hello_{};  // as on the wire
  Digest acceptor_nonce_{};
  std::optional<std::array<std::byte, 32>> common_;
  std::array<std::byte, 64> in_{};
  std::array<std::byte, 96> out_{};
  std::size_t in_count_ = 0;
  std::size_t in_wanted_ = 0;
  std::size_t out_count_ = 0;
  std::size_t out_sent_ = 0;
  int steps_ = 0;
  std::string reason_;
};

}  // namespace sinew
