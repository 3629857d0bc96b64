#include <atomic>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <sinew/core/error.hpp>
#include <sinew/core/file_text.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>

namespace sinew {
namespace {

constexpr std::size_t kSecretBytes = 32;

/// Once in a process: it reads its secret more than once.
void warn_if_others_read(const std::string& path) {
  using std::filesystem::perms;
  static std::atomic_flag told;
  std::error_code unknown;
  const perms allowed = std::filesystem::status(path, unknown).permissions();
  if (unknown || (allowed & perms::others_read) == perms::none || told.test_and_set()) return;
  log::warning("SINEW_SECRET_FILE={}: every user of this host can read it, and join the job; chmod o-r", path);
}

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
  warn_if_others_read(path);
  Bytes secret(kSecretBytes);
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(secret.data()), nullptr, EVP_sha256(), nullptr);
  return secret;
}

}  // namespace sinew
