#include <sys/socket.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <sinew/core/net/tls_session.hpp>
#include <sinew/core/system/guarded_file.hpp>

namespace sinew {
namespace {

constexpr std::size_t kLongestFile = 1 << 20;
constexpr long kLongestChain = 32 << 10;  // bytes of the peer's certificates
constexpr int kSecurityLevel = 2;  // of OpenSSL's: keys of RSA from 2048 bits on; the same whatever its file says
constexpr const char* kCiphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

template <auto release>
struct Releasing {
  template <class T>
  void operator()(T* object) const noexcept {
    release(object);
  }
};
using Certificate = std::unique_ptr<X509, Releasing<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Releasing<EVP_PKEY_free>>;
using Text = std::unique_ptr<BIO, Releasing<BIO_free_all>>;

/// A file and the variable that names it.
struct Setting {
  std::string_view name;
  const std::string& path;
};

[[noreturn]] void refuse(const Setting& s, const std::string& why) {
  ERR_clear_error();
  throw Error(Code::InvalidArgument, fmt::format("{}={}: {}", s.name, s.path, why));
}

Text text_of(const std::string& content) {
  return Text(BIO_new_mem_buf(content.data(), static_cast<int>(content.size())));
}

std::vector<Certificate> certificates_in(const Setting& s) {
  const std::string content = guarded_file(s.name, s.path, Guard::Trusted, kLongestFile, "certificates, as PEM");
  const Text text = text_of(content);
  std::vector<Certificate> all;
  while (Certificate c{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) all.push_back(std::move(c));
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) refuse(s, fmt::format("certificate {} in it is not to be read, expected PEM", all.size() + 1));
  if (all.empty()) refuse(s, "holds no certificate, expected PEM (-----BEGIN CERTIFICATE-----)");
  ERR_clear_error();
  return all;
}

Key key_in(const Setting& s) {
  std::string content = guarded_file(s.name, s.path, Guard::Secret, kLongestFile, "one private key, as PEM");
  bool asked = false;
  const auto no_passphrase = [](char*, int, int, void* was_asked) {
    *static_cast<bool*>(was_asked) = true;
    return -1;
  };
  const Text text = text_of(content);
  Key key(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, &asked));
  OPENSSL_cleanse(content.data(), content.size());
  if (asked) refuse(s, "is locked by a passphrase, expected a key without: nobody is there to be asked for it");
  if (!key) refuse(s, "holds no private key, expected PEM (-----BEGIN PRIVATE KEY-----)");
  return key;
}

std::string subject_of(X509* certificate) {
  const Text text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* start = nullptr;
  const long bytes = BIO_get_mem_data(text.get(), &start);
  return {start, static_cast<std::size_t>(bytes)};
}

std::string time_of(const ASN1_TIME* when) {
  const Text text(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(text.get(), when);
  char* start = nullptr;
  const long bytes = BIO_get_mem_data(text.get(), &start);
  return {start, static_cast<std::size_t>(bytes)};
}

/// As the other end of a connection will judge it, at either of its ends.
void require_accepted(SSL_CTX* context, const Setting& certificate, const Setting& authority, X509* own) {
  for (const auto& [purpose, end] :
       {std::pair(X509_PURPOSE_SSL_SERVER, "accepts"), {X509_PURPOSE_SSL_CLIENT, "opens"}}) {
    const std::unique_ptr<X509_STORE_CTX, Releasing<X509_STORE_CTX_free>> judge(X509_STORE_CTX_new());
    STACK_OF(X509)* chain = nullptr;
    SSL_CTX_get0_chain_certs(context, &chain);
    if (X509_STORE_CTX_init(judge.get(), SSL_CTX_get_cert_store(context), own, chain) != 1) {
      refuse(certificate, "OpenSSL does not judge it: it is out of memory");
    }
    X509_STORE_CTX_set_purpose(judge.get(), purpose);
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(judge.get()), kSecurityLevel);
    if (X509_verify_cert(judge.get()) == 1) continue;
    X509* at_fault = X509_STORE_CTX_get_current_cert(judge.get());
    if (at_fault == nullptr) at_fault = own;
    refuse(certificate,
           fmt::format("no peer would accept it from the end that {} a connection: {} ({}, valid from {} to {}); the "
                       "authority is {}={}",
                       end, X509_verify_cert_error_string(X509_STORE_CTX_get_error(judge.get())), subject_of(at_fault),
                       time_of(X509_get0_notBefore(at_fault)), time_of(X509_get0_notAfter(at_fault)), authority.name,
                       authority.path));
  }
}

/// A connection with itself: what a key, a chain and OpenSSL's own settings come to is known by no judgement alone.
void require_handshake(const std::shared_ptr<const TlsContext>& context, const Setting& certificate) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) return;  // too few left
  Socket asks(FileDescriptor{ends[0]}, Socket::End::Connects, context);
  Socket accepts(FileDescriptor{ends[1]}, Socket::End::Accepts, context);
  constexpr int kTurns = 20;
  std::byte word{};
  ssize_t came = -1;
  for (int turn = 0; turn < kTurns && came != 1 && asks.trouble().empty() && accepts.trouble().empty(); ++turn) {
    static_cast<void>(asks.send(std::span(&word, 1)));
    asks.flush();
    came = accepts.receive(std::span(&word, 1));
    accepts.flush();
  }
  if (came == 1) return;
  const std::string why = accepts.trouble().empty() ? asks.trouble() : accepts.trouble();
  refuse(certificate, fmt::format("no connection can be made with it: {}", why.empty() ? "it does not end" : why));
}

}  // namespace

void TlsContext::Release::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }

TlsContext::TlsContext(std::uint64_t records_per_key)
    : context_(SSL_CTX_new(TLS_method())), records_per_key_(records_per_key) {
  SSL_CTX* c = context_.get();
  if (c == nullptr || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(c, kCiphers) != 1) {
    ERR_clear_error();
    throw Error(Code::Unavailable, "SINEW_TLS=1: this OpenSSL has no TLS 1.3");
  }
  fill_random(cookie_key_);
  TlsSession::prepare(c);
  SSL_CTX_set_security_level(c, kSecurityLevel);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_num_tickets(c, 0);  // connections last as long as the job: none is resumed
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(c, kLongestChain);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

std::shared_ptr<const TlsContext> TlsContext::open(const TlsFiles& files, std::uint64_t records_per_key) {
  const Setting certificate{"SINEW_TLS_CERTIFICATE", files.certificate};
  const Setting key{"SINEW_TLS_KEY", files.key};
  const Setting authority{"SINEW_TLS_CA", files.authority};
  for (const Setting& s : {certificate, key, authority}) {
    if (files.wanted && s.path.empty()) {
      throw Error(Code::InvalidArgument, fmt::format("SINEW_TLS=1: expected {}, a PEM file, too", s.name));
    }
    if (!files.wanted && !s.path.empty()) refuse(s, "is set, but SINEW_TLS is not 1: nothing would be encrypted");
  }
  if (!files.wanted) return nullptr;

  std::shared_ptr<TlsContext> made(new TlsContext(records_per_key));
  SSL_CTX* c = made->get();
  for (const Certificate& a : certificates_in(authority)) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(c), a.get()) != 1) refuse(authority, "OpenSSL does not take it");
  }
  const std::vector<Certificate> own = certificates_in(certificate);
  if (SSL_CTX_use_certificate(c, own.front().get()) != 1) {
    refuse(certificate, fmt::format("OpenSSL does not use it: {}", ERR_reason_error_string(ERR_peek_last_error())));
  }
  for (std::size_t i = 1; i < own.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(c, own[i].get()) == 1) continue;
    refuse(certificate, fmt::format("OpenSSL does not use certificate {} in it ({}): {}", i + 1,
                                    subject_of(own[i].get()), ERR_reason_error_string(ERR_peek_last_error())));
  }
  const Key own_key = key_in(key);
  if (X509_check_private_key(own.front().get(), own_key.get()) != 1 || SSL_CTX_use_PrivateKey(c, own_key.get()) != 1) {
    refuse(key, fmt::format("is not the key of {}={} ({})", certificate.name, certificate.path,
                            subject_of(own.front().get())));
  }
  require_accepted(c, certificate, authority, own.front().get());
  require_handshake(made, certificate);
  return made;
}

}  // namespace sinew
