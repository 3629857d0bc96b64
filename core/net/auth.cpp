#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/tls_alert.hpp>

namespace sinew {
namespace {

static_assert(std::endian::native == std::endian::little, "messages between hosts are little-endian");

/// The number is the version of this protocol.
constexpr std::string_view kHelloMagic = "sinew/1\n";
constexpr std::size_t kVersionAt = 6;

/// The first message, as on the wire.
struct Hello {
  char magic[8];
  AuthClaim claim;
  std::byte nonce[32];
};
static_assert(sizeof(Hello) == Authentication::kHelloBytes && sizeof(AuthClaim) == 24);

}  // namespace

namespace {

bool is_magic_of_other_version(std::string_view magic) {
  return magic.size() == kHelloMagic.size() && magic != kHelloMagic &&
         magic.substr(0, kVersionAt) == kHelloMagic.substr(0, kVersionAt) && magic.back() == kHelloMagic.back();
}

std::string versions_differ(std::string_view who, std::string_view magic) {
  const char theirs = magic[kVersionAt];
  return fmt::format(
      "{} speaks version {} of the protocol of connections, this process version {}: install the same version of "
      "sinew on every host",
      who, theirs >= '!' && theirs <= '~' ? theirs : '?', kHelloMagic.substr(kVersionAt, 1));
}

void require(const Bytes& secret) {
  if (secret.empty()) throw Error(Code::InvalidArgument, "authentication: the job's secret is empty");
}

}  // namespace

Authentication::Authentication(Bytes secret, const AuthClaim& claim, bool connects)
    : secret_(std::move(secret)), claim_(claim), connects_(connects) {}

Authentication Authentication::connector(const Bytes& secret, const AuthClaim& claim) {
  require(secret);
  Authentication a(secret, claim, true);
  Hello hello{};
  std::memcpy(hello.magic, kHelloMagic.data(), kHelloMagic.size());
  hello.claim = claim;
  fill_random(hello.nonce);
  std::memcpy(a.hello_.data(), &hello, sizeof hello);
  std::memcpy(a.out_.data(), &hello, sizeof hello);
  a.out_count_ = sizeof hello;
  a.expect(kReplyBytes);
  return a;
}

Authentication Authentication::acceptor(SecretOf secret_of) {
  Authentication a({}, {}, false);
  a.secret_of_ = std::move(secret_of);
  a.expect(kHelloBytes);
  return a;
}

Authentication Authentication::acceptor(const Bytes& secret, const AuthClaim& expected) {
  require(secret);
  return acceptor([secret, expected](const AuthClaim& c) {
    const bool is_ours =
        c.service == expected.service && c.to_rank == expected.to_rank && c.instance == expected.instance;
    return is_ours ? std::optional(secret) : std::nullopt;
  });
}

void Authentication::expect(std::size_t bytes) noexcept {
  in_count_ = 0;
  in_wanted_ = bytes;
}

std::span<std::byte> Authentication::room() noexcept { return std::span(in_).first(in_wanted_).subspan(in_count_); }

void Authentication::received(std::size_t bytes) {
  in_count_ += bytes;
  if (state_ != State::Underway || speaks_otherwise() || in_count_ < in_wanted_) return;
  if (connects_) return read_reply();
  in_wanted_ == kHelloBytes ? read_hello() : read_proof();
}

std::span<const std::byte> Authentication::to_send() const noexcept {
  return std::span(out_).first(out_count_).subspan(out_sent_);
}

void Authentication::sent(std::size_t bytes) noexcept {
  out_sent_ += bytes;
  if (out_sent_ == out_count_) out_sent_ = out_count_ = 0;
}

/// The first bytes of TLS's messages are none of ours: a hello has text there, and a reply this kind of alert's length
/// once in 2^56 times. A listener of another version answers with its own magic, which a reply has as seldom.
bool Authentication::speaks_otherwise() {
  constexpr std::array<unsigned char, 2> kTlsHello = {22, 3};
  const auto begins_with = [this](const auto& bytes) {
    return in_count_ >= bytes.size() && std::memcmp(in_.data(), bytes.data(), bytes.size()) == 0;
  };
  const std::string_view first(reinterpret_cast<const char*>(in_.data()), std::min(in_count_, kHelloMagic.size()));
  if (connects_ && is_magic_of_other_version(first)) {
    refuse(versions_differ("the listener", first));
  } else if (connects_ && begins_with(kNotSpokenHere)) {
    refuse("the listener speaks TLS: SINEW_TLS=1 is set there and not here");
  } else if (!connects_ && in_wanted_ == kHelloBytes && begins_with(kTlsHello)) {
    refuse("the connecting side speaks TLS: SINEW_TLS=1 is set there and not here");
    is_of_sinew_ = true;
    std::memcpy(out_.data(), kNotSpokenHere.data(), kNotSpokenHere.size());
    out_count_ = kNotSpokenHere.size();
  }
  return state_ == State::Refused;
}

void Authentication::read_hello() {
  Hello hello;
  std::memcpy(&hello, in_.data(), sizeof hello);
  const std::string_view magic(hello.magic, sizeof hello.magic);
  is_of_sinew_ = is_magic_of_other_version(magic) || magic == kHelloMagic;
  if (is_magic_of_other_version(magic)) {
    refuse(versions_differ("the connecting side", magic));
    std::memcpy(out_.data(), kHelloMagic.data(), kHelloMagic.size());
    out_count_ = kHelloMagic.size();
    return;
  }
  if (magic != kHelloMagic) return refuse("not a hello of this protocol");
  claim_ = hello.claim;
  std::optional<Bytes> secret = secret_of_(claim_);
  is_known_ = secret.has_value();
  secret_ = secret ? std::move(*secret) : random_secret();
  hello_ = in_;
  fill_random(acceptor_nonce_);
  std::memcpy(out_.data(), acceptor_nonce_.data(), acceptor_nonce_.size());
  const Digest mine = proof(false);
  std::memcpy(out_.data() + acceptor_nonce_.size(), mine.data(), mine.size());
  out_count_ = kReplyBytes;
  ++steps_;
  expect(kProofBytes);
}

void Authentication::read_reply() {
  std::memcpy(acceptor_nonce_.data(), in_.data(), acceptor_nonce_.size());
  const Digest theirs = proof(false);
  if (CRYPTO_memcmp(theirs.data(), in_.data() + acceptor_nonce_.size(), theirs.size()) != 0) {
    return refuse(
        "the listener does not know the job's secret, or this World has ended there; is SINEW_SECRET_FILE the same on "
        "all "
        "hosts?");
  }
  const Digest mine = proof(true);
  std::memcpy(out_.data() + out_count_, mine.data(), mine.size());
  out_count_ += mine.size();
  expect(0);
  state_ = State::Proven;
}

void Authentication::read_proof() {
  const Digest theirs = proof(true);
  if (CRYPTO_memcmp(theirs.data(), in_.data(), theirs.size()) != 0) {
    return refuse(is_known_ ? "the connecting side does not know the job's secret"
                            : fmt::format("nobody here takes connections for service {:#x}, rank {}, instance {:#x}",
                                          claim_.service, claim_.to_rank, claim_.instance));
  }
  ++steps_;
  expect(0);
  state_ = State::Proven;
}

void Authentication::refuse(std::string reason) {
  reason_ = std::move(reason);
  state_ = State::Refused;
  expect(0);
  out_sent_ = out_count_ = 0;
}

Authentication::Digest Authentication::proof(bool of_connector) const {
  std::array<std::byte, 1 + 64 + 32 + 32> text;  // the last 32: where there is a connection's own
  text[0] = std::byte(of_connector ? 'C' : 'A');
  std::memcpy(text.data() + 1, hello_.data(), hello_.size());
  std::memcpy(text.data() + 1 + hello_.size(), acceptor_nonce_.data(), acceptor_nonce_.size());
  std::size_t bytes = text.size() - 32;
  if (common_) {
    std::memcpy(text.data() + bytes, common_->data(), common_->size());
    bytes = text.size();
  }
  Digest digest;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), bytes, reinterpret_cast<unsigned char*>(digest.data()),
           &length) == nullptr ||
      length != digest.size()) {
    throw Error(Code::System, "HMAC-SHA256: OpenSSL refused to compute it");
  }
  return digest;
}

}  // namespace sinew
