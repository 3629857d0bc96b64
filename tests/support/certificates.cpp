#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <support/certificates.hpp>

namespace sinew::test {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

constexpr long kDay = 24 * 60 * 60;

void require(bool holds) {
  if (!holds) throw std::runtime_error("OpenSSL does not make a certificate for a test");
}

Key new_key(const char* curve) {
  Key key(EVP_EC_gen(curve), &EVP_PKEY_free);
  require(key != nullptr);
  return key;
}

void extend(X509* certificate, int extension, const std::string& value) {
  X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, nullptr, extension, value.c_str());
  require(e != nullptr && X509_add_ext(certificate, e, -1) == 1);
  X509_EXTENSION_free(e);
}

/// Not signed yet.
Certificate certificate_of(const std::string& subject, EVP_PKEY* key, const CertificateWish& wish) {
  static long number = 0;
  Certificate c(X509_new(), &X509_free);
  X509_set_version(c.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(c.get()), ++number);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), wish.from_day * kDay);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), wish.until_day * kDay);
  X509_set_pubkey(c.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
  return c;
}

template <class Write>
void write_pem(const std::string& path, Write write) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  require(file != nullptr && write(file.get()) == 1);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

}  // namespace

struct Authority::Keys {
  Key key = new_key("P-256");
  Certificate certificate{nullptr, &X509_free};
};

Authority::Authority(std::string folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)), keys_(std::make_unique<Keys>()) {
  keys_->certificate = certificate_of(name_, keys_->key.get(), {});
  X509* own = keys_->certificate.get();
  X509_set_issuer_name(own, X509_get_subject_name(own));
  extend(own, NID_basic_constraints, "critical,CA:TRUE");
  extend(own, NID_key_usage, "critical,keyCertSign");
  require(X509_sign(own, keys_->key.get(), EVP_sha256()) != 0);
  write_pem(folder_ + "/" + name_ + ".pem", [own](FILE* f) { return PEM_write_X509(f, own); });
}

Authority::~Authority() = default;

TlsFiles Authority::issue(const std::string& who, const CertificateWish& wish) const {
  const Key key = new_key(wish.curve);
  const Certificate c = certificate_of(who, key.get(), wish);
  X509_set_issuer_name(c.get(), X509_get_subject_name(keys_->certificate.get()));
  if (!wish.usage.empty()) extend(c.get(), NID_ext_key_usage, wish.usage);
  require(X509_sign(c.get(), keys_->key.get(), EVP_sha256()) != 0);
  const std::string stem = folder_ + "/" + name_ + "-" + who;
  write_pem(stem + ".pem", [&](FILE* f) { return PEM_write_X509(f, c.get()); });
  write_pem(stem + ".key", [&](FILE* f) {
    const std::string& p = wish.passphrase;
    const auto* bytes = reinterpret_cast<const unsigned char*>(p.data());
    return PEM_write_PrivateKey(f, key.get(), p.empty() ? nullptr : EVP_aes_128_cbc(), p.empty() ? nullptr : bytes,
                                static_cast<int>(p.size()), nullptr, nullptr);
  });
  return {true, stem + ".pem", stem + ".key", folder_ + "/" + name_ + ".pem"};
}

}  // namespace sinew::test
