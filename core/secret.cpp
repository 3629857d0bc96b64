#include <string_view>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <sinew/core/error.hpp>
#include <sinew/core/file_text.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>

namespace sinew {
namespace {

constexpr std::size_t kSecretBytes = 32;

}  // namespace

Bytes random_secret() {
  Bytes secret(kSecretBytes);
  fill_random(secret);
  return secret;
}

Bytes secret_from_file(const std::string& path) {
  const auto content = file_text(path);
  if (!content) throw Error(Code::InvalidArgument, fmt::format("SINEW_SECRET_FILE={}: cannot be read", path));
  std::string_view text = *content;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() < 16) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("SINEW_SECRET_FILE={}: holds {} bytes, expected at least 16 random ones", path, text.size()));
  }
  Bytes secret(kSecretBytes);
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(secret.data()), nullptr, EVP_sha256(), nullptr);
  return secret;
}

}  // namespace sinew
