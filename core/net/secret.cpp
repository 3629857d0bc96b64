#include <array>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/system/guarded_file.hpp>

namespace sinew {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kLeastBytes = 16;   // of the file's content
constexpr std::size_t kMostBytes = 4096;  // likewise; not a page

}  // namespace

Bytes random_secret() {
  Bytes secret(kSecretBytes);
  fill_random(secret);
  return secret;
}

Bytes secret_from_file(const std::string& path) {
  constexpr std::string_view kSetting = "SINEW_SECRET_FILE";
  std::string content =
      guarded_file(kSetting, path, Guard::Secret, kMostBytes, "the job's secret, such as 32 random bytes");
  std::string_view text = content;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  Bytes secret(kSecretBytes);
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(secret.data()), nullptr, EVP_sha256(), nullptr);
  const std::size_t bytes = text.size();
  OPENSSL_cleanse(content.data(), content.size());
  if (bytes < kLeastBytes) {
    throw Error(Code::InvalidArgument, fmt::format("{}={}: holds {} bytes, expected {} random bytes or more", kSetting,
                                                   path, bytes, kLeastBytes));
  }
  return secret;
}

std::string secret_name(const Bytes& secret, std::string_view text) {
  constexpr std::size_t kNameBytes = 16;
  Bytes both = secret;
  const auto tail = std::as_bytes(std::span(text));
  both.insert(both.end(), tail.begin(), tail.end());
  std::array<unsigned char, 32> digest{};
  EVP_Digest(both.data(), both.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  OPENSSL_cleanse(both.data(), both.size());
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(kNameBytes), ""));
}

}  // namespace sinew
