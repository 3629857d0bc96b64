#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/net/tls_alert.hpp>
#include <sinew/core/net/tls_session.hpp>

namespace sinew {

/// OpenSSL's way to the socket: never a signal, and what the kernel has no room for is kept, so that a record that is
/// begun never has to be begun again.
struct TlsSocketBio {
  static TlsSession& of(BIO* bio) noexcept { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int write(BIO* bio, const char* bytes, int count) {
    of(bio).put(std::as_bytes(std::span(bytes, static_cast<std::size_t>(count))));
    return count;
  }

  static int read(BIO* bio, char* into, int count) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = of(bio).get(std::as_writable_bytes(std::span(into, static_cast<std::size_t>(count))));
    if (got < 0 && of(bio).error_ == 0) BIO_set_retry_read(bio);
    return static_cast<int>(got);
  }

  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF && of(bio).closed_ ? 1 : 0;
  }

  static BIO* make(TlsSession& session) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a socket of sinew's");
      BIO_meth_set_write(m, &write);
      BIO_meth_set_read(m, &read);
      BIO_meth_set_ctrl(m, &control);
      return m;
    }();
    BIO* bio = BIO_new(method);
    if (bio == nullptr) return nullptr;
    BIO_set_data(bio, &session);
    BIO_set_init(bio, 1);
    return bio;
  }
};

/// Makes and checks the cookie that a peer has to send back. The cookie is an HMAC over the peer's address and port.
struct TlsCookie {
  static constexpr std::size_t kBytes = 32;

  static int make(SSL* session, unsigned char* cookie, std::size_t* length) {
    const int socket = TlsSocketBio::of(SSL_get_rbio(session)).socket_;
    const TlsContext& context = *TlsSocketBio::of(SSL_get_rbio(session)).context_;
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) return 0;
    const auto& key = context.cookie_key();
    unsigned made = 0;
    const unsigned char* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                     reinterpret_cast<const unsigned char*>(&peer), bytes, cookie, &made);
    *length = made;
    return done != nullptr && made == kBytes ? 1 : 0;
  }

  static int check(SSL* session, const unsigned char* cookie, std::size_t length) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> expected{};
    std::size_t bytes = 0;
    return make(session, expected.data(), &bytes) == 1 && length == bytes &&
                   CRYPTO_memcmp(expected.data(), cookie, bytes) == 0
               ? 1
               : 0;
  }
};

namespace {

constexpr std::size_t kRecord = 16 << 10;
constexpr std::size_t kWorthItsOwn = 2 << 10;  // a piece that is not copied together with others
constexpr std::size_t kReadAhead = 64 << 10;
constexpr unsigned char kHandshakeRecord = 22;
constexpr std::size_t kRecordHeader = 5;  // type, version (2 bytes), length (2 bytes)

/// The first bytes of the pieces behind `skip`: of one that is worth a record of its own, else of several, in `room`.
std::span<const std::byte> beginning(std::span<const iovec> pieces, std::size_t skip, std::span<std::byte> room) {
  std::size_t filled = 0;
  for (const iovec& v : pieces) {
    const auto piece = std::span(static_cast<const std::byte*>(v.iov_base), v.iov_len).subspan(skip);
    skip = 0;
    if (piece.size() >= kWorthItsOwn) return filled == 0 ? piece : room.first(filled);
    const std::size_t fits = std::min(piece.size(), room.size() - filled);
    if (fits != 0) std::memcpy(room.data() + filled, piece.data(), fits);
    filled += fits;
    if (fits < piece.size()) break;
  }
  return room.first(filled);
}

}  // namespace

void TlsSession::Release::operator()(ssl_st* session) const noexcept { SSL_free(session); }

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, int socket, bool connects)
    : context_(std::move(context)), socket_(socket), connects_(connects), wants_cookie_(!connects) {
  if (connects) begin();
}

void TlsSession::prepare(ssl_ctx_st* context) noexcept {
  SSL_CTX_set_stateless_cookie_generate_cb(context, &TlsCookie::make);
  SSL_CTX_set_stateless_cookie_verify_cb(context, &TlsCookie::check);
  // Records for middleboxes would come before the second hello, and SSL_stateless() expects a hello.
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
}

TlsSession::~TlsSession() = default;

void TlsSession::begin() noexcept {
  session_.reset(SSL_new(context_->get()));
  BIO* bio = session_ ? TlsSocketBio::make(*this) : nullptr;
  if (bio == nullptr) {
    session_.reset();
    error_ = ENOMEM;
    return;
  }
  SSL_set_bio(session_.get(), bio, bio);
  connects_ ? SSL_set_connect_state(session_.get()) : SSL_set_accept_state(session_.get());
}

/// Returns true if OpenSSL may read and write: on the side that accepts, when the peer has sent the cookie back.
bool TlsSession::begun() noexcept {
  if (session_ && !wants_cookie_) return true;
  if (error_ != 0 || !hello_has_come()) return false;
  if (!session_) begin();
  return session_ && sent_cookie_back();
}

/// Returns true if OpenSSL should read now: a whole TLS record has come, or the peer has ended the connection, or
/// OpenSSL will refuse the record. Otherwise the kernel reports the socket as readable when the whole record has come.
/// So a peer that sends its hello byte by byte does not wake this side for each byte, and costs no TLS session.
bool TlsSession::hello_has_come() noexcept {
  std::array<unsigned char, kRecordHeader> header{};
  const ssize_t got = ::recv(socket_, header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && is_for_later(errno)) return false;
  if (got <= 0) {
    error_ = got < 0 ? errno : ECONNRESET;
    return false;
  }
  if (!session_ && header[0] != kHandshakeRecord) {
    std::array<std::byte, 2048> nothing_for_us;  // unread bytes would take the answer back
    static_cast<void>(::recv(socket_, nothing_for_us.data(), nothing_for_us.size(), MSG_DONTWAIT));
    static_cast<void>(::send(socket_, kNotSpokenHere.data(), kNotSpokenHere.size(), MSG_NOSIGNAL));
    fails("the other side does not speak TLS, and SINEW_TLS=1 here");
    return false;
  }
  const std::size_t length = std::size_t{header[3]} << 8 | header[4];
  const bool is_header_here = got == static_cast<ssize_t>(kRecordHeader);
  if (is_header_here && (header[0] != kHandshakeRecord || length > kRecord)) return true;  // OpenSSL refuses it
  const std::size_t whole = kRecordHeader + (is_header_here ? length : 0);
  int here = 0;
  if (::ioctl(socket_, FIONREAD, &here) != 0 || (is_header_here && static_cast<std::size_t>(here) >= whole))
    return true;
  pollfd other_side{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  if (::poll(&other_side, 1, 0) != 0) return true;  // it has ended
  wake_when_received(socket_, whole);
  return false;
}

/// Reads a hello. Returns true if it has the cookie. The first hello of a peer has none, and is answered with a cookie.
bool TlsSession::sent_cookie_back() noexcept {
  const int result = SSL_stateless(session_.get());
  wake_when_received(socket_, result == 0 ? kRecordHeader : 1);
  if (result == 0) return false;
  wants_cookie_ = false;
  if (result == 1) {
    static_cast<void>(outcome(SSL_do_handshake(session_.get())));
  } else if (SSL_get_error(session_.get(), -1) == SSL_ERROR_WANT_READ) {
    fails("the other side sends its TLS hello in several records");
  } else {
    static_cast<void>(outcome(-1));
  }
  return error_ == 0;
}

ssize_t TlsSession::fails(std::string trouble) noexcept {
  trouble_ = std::move(trouble);
  error_ = errno = EPROTO;
  return -1;
}

void TlsSession::put(std::span<const std::byte> bytes) noexcept {
  unsent_.insert(unsent_.end(), bytes.begin() + static_cast<std::ptrdiff_t>(unsent_.empty() ? push(bytes) : 0),
                 bytes.end());
  if (unsent_.size() > kMostUnsent) fails("the other side asks for answers that it does not read");
}

/// How many the kernel has taken; all where it takes none any more.
std::size_t TlsSession::push(std::span<const std::byte> bytes) noexcept {
  const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), flags_ | MSG_NOSIGNAL);
  if (n >= 0) return static_cast<std::size_t>(n);
  if (is_for_later(errno)) return 0;
  write_error_ = errno;
  return bytes.size();
}

void TlsSession::flush() noexcept {
  if (!unsent_.empty()) unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(push(unsent_)));
}

ssize_t TlsSession::get(std::span<std::byte> room) noexcept {
  if (shut_) return -1;
  const ssize_t n = ::recv(socket_, room.data(), room.size(), 0);
  if (n < 0 && is_for_later(errno)) return -1;
  if (n < 0) error_ = errno;
  closed_ = n == 0;
  if (n > 0 && !trusted_ && (heard_ += static_cast<std::size_t>(n)) > kMostUnproven) {
    return fails(fmt::format("more than {} bytes of TLS before the job's secret was proven", kMostUnproven));
  }
  return n;
}

std::string TlsSession::what_went_wrong() const {
  const unsigned long error = ERR_peek_error();
  const char* reason = ERR_reason_error_string(error);
  const std::string text = reason != nullptr ? reason : "unknown";
  if (ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    const long verdict = SSL_get_verify_result(session_.get());
    const bool of_time = verdict == X509_V_ERR_CERT_HAS_EXPIRED || verdict == X509_V_ERR_CERT_NOT_YET_VALID;
    return fmt::format("the certificate of the other side is refused ({}){}", X509_verify_cert_error_string(verdict),
                       of_time ? "" : "; is SINEW_TLS_CA the same on all hosts?");
  }
  switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION: return "the other side does not speak TLS 1.3, and SINEW_TLS=1 here";
    case SSL_R_WRONG_VERSION_NUMBER: return "the other side does not speak TLS, and SINEW_TLS=1 here";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return fmt::format("the other side refuses this one's certificate ({}); is SINEW_TLS_CA the same on all hosts?",
                         text);
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "the other side refuses this one's certificate: it has expired, or the clocks differ";
    default: break;
  }
  const bool is_told = ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET;
  return fmt::format("{}: {}", is_told ? "the other side ends TLS" : "TLS", text);
}

/// What an operation of OpenSSL's has come to, as a system call would say it.
ssize_t TlsSession::outcome(int result) noexcept {
  if (result > 0) return result;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: break;
  }
  if (error_ == 0 && closed_) error_ = ECONNRESET;  // a peer that means it says so first
  if (error_ == 0) {
    fails(what_went_wrong());
    ::shutdown(socket_, SHUT_RD);  // whoever waits for the descriptor is woken, and finds out
  }
  ERR_clear_error();
  errno = error_;
  return -1;
}

/// One record, of the first bytes. No key seals more records than its cipher bears.
ssize_t TlsSession::record(std::span<const std::byte> plain) noexcept {
  ERR_clear_error();
  const bool is_worn = is_open() && ++records_ % context_->records_per_key() == 0;
  if (is_worn && SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return outcome(-1);
  return outcome(SSL_write(session_.get(), plain.data(), static_cast<int>(std::min(plain.size(), kRecord))));
}

ssize_t TlsSession::send(std::span<const iovec> pieces, int flags) noexcept {
  flags_ = flags;
  flush();
  const bool is_ready = error_ == 0 && write_error_ == 0 && !wants_write() && begun();
  if (!is_ready) {
    errno = error_ != 0 ? error_ : write_error_ != 0 ? write_error_ : EAGAIN;
    return -1;
  }
  std::array<std::byte, kRecord> together;
  ssize_t sent = 0;
  std::size_t skip = 0;  // of the first piece
  while (!pieces.empty() && !wants_write()) {
    const std::span<const std::byte> next = beginning(pieces, skip, together);
    const ssize_t taken = next.empty() ? 0 : record(next);
    if (taken < 0) return sent != 0 ? sent : -1;
    sent += taken;
    skip += static_cast<std::size_t>(taken);
    while (!pieces.empty() && skip >= pieces.front().iov_len) {
      skip -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
  }
  return sent;
}

ssize_t TlsSession::receive(std::span<const iovec> room, bool held) noexcept {
  if (!begun()) {
    errno = error_ != 0 ? error_ : EAGAIN;
    return -1;
  }
  shut_ = held;
  ssize_t all = 0;
  for (const iovec& v : room) {
    for (std::size_t at = 0; at < v.iov_len;) {
      ERR_clear_error();
      auto* into = static_cast<std::byte*>(v.iov_base) + at;
      const ssize_t n =
          outcome(SSL_read(session_.get(), into, static_cast<int>(std::min<std::size_t>(v.iov_len - at, 1 << 30))));
      if (n <= 0) {
        shut_ = false;
        return all != 0 ? all : n;  // the next call says the same again
      }
      at += static_cast<std::size_t>(n);
      all += n;
    }
  }
  shut_ = false;
  return all;
}

void TlsSession::read_ahead() noexcept {
  if (!session_) return;
  SSL_set_read_ahead(session_.get(), 1);
  SSL_set_default_read_buffer_len(session_.get(), kReadAhead);
}

bool TlsSession::is_open() const noexcept { return session_ && SSL_is_init_finished(session_.get()) != 0; }

bool TlsSession::holds() const noexcept { return session_ && SSL_has_pending(session_.get()) != 0; }

void TlsSession::finish() noexcept {
  ERR_clear_error();
  if (is_open() && error_ == 0) SSL_shutdown(session_.get());
}

std::array<std::byte, 32> TlsSession::binding() const {
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  std::array<std::byte, 32> bytes{};
  const bool is_bound =
      is_open() && SSL_export_keying_material(session_.get(), reinterpret_cast<unsigned char*>(bytes.data()),
                                              bytes.size(), kLabel.data(), kLabel.size(), nullptr, 0, 1) == 1;
  if (!is_bound) fill_random(bytes);  // then no proof holds
  return bytes;
}

}  // namespace sinew
