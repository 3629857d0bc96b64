#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <sinew/core/error.hpp>
#include <sinew/core/file_descriptor.hpp>
#include <sinew/core/random.hpp>
#include <sinew/core/secret.hpp>

namespace sinew {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kLeastBytes = 16;   // of the file's content
constexpr std::size_t kMostBytes = 4096;  // likewise; not a page
constexpr mode_t kPermissions = 07777;
constexpr mode_t kOthers = 0077;

template <class... A>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<A...> why, A&&... values) {
  throw Error(Code::InvalidArgument,
              fmt::format("SINEW_SECRET_FILE={}: {}", path, fmt::format(why, std::forward<A>(values)...)));
}

/// Judged by the open file, not by its name: what is behind that may change.
void require_private(const std::string& path, int file) {
  struct stat about {};
  if (::fstat(file, &about) != 0) refuse(path, "cannot be read ({})", std::strerror(errno));
  if (!S_ISREG(about.st_mode)) refuse(path, "cannot be read: it is no regular file");
  if (about.st_uid != ::geteuid()) {
    refuse(path, "belongs to user id {}, expected a file of this user, {}: whoever owns it can join the job",
           about.st_uid, ::geteuid());
  }
  if ((about.st_mode & kOthers) != 0) {
    refuse(path, "has mode {:04o}, expected 0600 or less: other users of this host could join the job; chmod 600 {}",
           about.st_mode & kPermissions, path);
  }
}

}  // namespace

Bytes random_secret() {
  Bytes secret(kSecretBytes);
  fill_random(secret);
  return secret;
}

Bytes secret_from_file(const std::string& path) {
  // O_NONBLOCK: a name that leads to a pipe must not hold the job up.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file) refuse(path, "cannot be read ({})", std::strerror(errno));
  require_private(path, file.get());
  std::array<char, kMostBytes + 1> content;
  std::size_t have = 0;
  ssize_t got = 0;
  do {
    got = ::read(file.get(), content.data() + have, content.size() - have);
    if (got > 0) have += static_cast<std::size_t>(got);
  } while (got > 0 || (got < 0 && errno == EINTR));
  if (got < 0) refuse(path, "cannot be read ({})", std::strerror(errno));
  std::string_view text(content.data(), have);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  Bytes secret(kSecretBytes);
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(secret.data()), nullptr, EVP_sha256(), nullptr);
  OPENSSL_cleanse(content.data(), have);
  if (have == content.size())
    refuse(path, "holds more than {} bytes, expected a secret such as 32 random ones", kMostBytes);
  if (text.size() < kLeastBytes) {
    refuse(path, "holds {} bytes, expected at least {} random ones", text.size(), kLeastBytes);
  }
  return secret;
}

}  // namespace sinew
