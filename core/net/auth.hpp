#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// The purpose of a connection. The connecting side sends it, and the HMACs of both sides include it.
struct AuthClaim {
  std::uint32_t service = 0;  ///< the protocol that follows the authentication; each protocol has its own constant
  std::int32_t from_rank = -1;
  std::int32_t to_rank = -1;
  std::uint32_t channel = 0;   ///< the service's own
  std::uint64_t instance = 0;  ///< a random number of the listener, which a restarted process does not repeat
  friend bool operator==(const AuthClaim&, const AuthClaim&) = default;
};

/// Authenticates both ends of a new connection: each proves that it knows the job's secret. The messages have fixed
/// sizes (hello 64, reply 64, proof 32 bytes). Reply and proof are HMAC-SHA256 over the role, the claim and random
/// numbers of both sides. This type does no I/O and reads no clock. Its owner reads into room(), calls received(),
/// writes to_send() and calls sent() until state() is not Underway, and it sets the time limit. The protocol's first
/// byte may follow the last byte of to_send(). A side that receives TLS and does not use TLS refuses the connection.
/// to_send() then holds a TLS alert, so that the other side can report the reason. An accepting side that receives the
/// hello of another version of this protocol refuses the connection, too. to_send() then holds its own version.
/// Source: ISO/IEC 9798-4, three-pass mutual authentication.
class SINEW_API Authentication {
 public:
  enum class State : std::uint8_t { Underway, Proven, Refused };

  static constexpr std::size_t kHelloBytes = 64;
  static constexpr std::size_t kReplyBytes = 64;
  static constexpr std::size_t kProofBytes = 32;

  /// The side that connects. Errors: Error{InvalidArgument} where the secret is empty.
  static Authentication connector(const Bytes& secret, const AuthClaim& claim);
  /// Returns the secret for connections with this claim, or nullopt if no service here takes them.
  using SecretOf = std::function<std::optional<Bytes>(const AuthClaim&)>;
  /// The side that accepts. It calls `secret_of` when it has received the hello. A claim that no service takes is
  /// answered as if the secrets differed, so that an unauthenticated peer does not learn which services are here.
  static Authentication acceptor(SecretOf secret_of);
  /// The side that accepts, at a listener with one service. It takes claims with this service, to_rank and instance.
  static Authentication acceptor(const Bytes& secret, const AuthClaim& expected);

  /// Where the next bytes from the peer go; empty: none are wanted. Never reads past the handshake.
  std::span<std::byte> room() noexcept;
  void received(std::size_t bytes);
  /// What the proofs cover beside: bytes that both ends of the connection below have in common, and nobody else has.
  void bind(const std::array<std::byte, 32>& common) noexcept { common_ = common; }
  /// What must be written now; empty: nothing.
  std::span<const std::byte> to_send() const noexcept;
  void sent(std::size_t bytes) noexcept;

  /// Returns whether the other side has sent the magic of this protocol, or of another version of it, or speaks TLS.
  bool is_of_sinew() const noexcept { return is_of_sinew_; }
  /// Ends it, for a reason of the connection's.
  void refuse(std::string reason);

  /// The number of messages that the accepting side has accepted: 1 after the hello, 2 after the proof. On the
  /// connecting side it stays 0.
  int steps() const noexcept { return steps_; }
  State state() const noexcept { return state_; }
  /// Why it is Refused, for a debug line.
  const std::string& reason() const noexcept { return reason_; }
  /// The agreed claim; the acceptor may rely on it once Proven.
  const AuthClaim& claim() const noexcept { return claim_; }

 private:
  using Digest = std::array<std::byte, 32>;

  Authentication(Bytes secret, const AuthClaim& claim, bool connects);
  Digest proof(bool of_connector) const;
  void read_hello();
  void read_reply();
  void read_proof();
  void expect(std::size_t bytes) noexcept;
  bool speaks_otherwise();

  SecretOf secret_of_;  // set on the accepting side
  Bytes secret_;        // on the accepting side empty until it has read the hello
  AuthClaim claim_;
  bool connects_;
  bool is_known_ = true;  // false: secret_of_ had no secret for the claim
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
  bool is_of_sinew_ = false;
  std::string reason_;
};

}  // namespace sinew
