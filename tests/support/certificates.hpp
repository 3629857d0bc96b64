#pragma once

#include <memory>
#include <string>

#include <sinew/core/config.hpp>

namespace sinew::test {

/// How a certificate differs from a good one.
struct CertificateWish {
  int from_day = -1;         ///< valid from so many days after now
  int until_day = 30;        ///< and until
  std::string usage{};       ///< extended key usage, such as "serverAuth"; empty: none, which allows all
  std::string passphrase{};  ///< of the key; empty: none
  const char* curve = "P-256";
};

/// An authority of one test, whose files are in a folder that the caller keeps.
class Authority {
 public:
  /// Writes NAME.pem, the authority's certificate.
  Authority(std::string folder, std::string name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  /// Writes the certificate NAME-WHO.pem and its key NAME-WHO.key (0600): all that a rank needs.
  TlsFiles issue(const std::string& who, const CertificateWish& wish = {}) const;

 private:
  struct Keys;
  std::string folder_;
  std::string name_;
  std::unique_ptr<Keys> keys_;
};

}  // namespace sinew::test
