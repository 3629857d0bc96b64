#include <fstream>
#include <string>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <sinew/core/error.hpp>
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
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (char c = 0; file.get(c);) text.push_back(c);
  if (!file.is_open() || file.bad())
    throw Error(Code::InvalidArgument, fmt::format("SINEW_SECRET_FILE={}: cannot be read", path));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
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
