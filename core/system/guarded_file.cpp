#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/guarded_file.hpp>

namespace sinew {
namespace {

constexpr mode_t kPermissions = 07777;
constexpr mode_t kOthers = 0077;
constexpr mode_t kOthersWrite = 0022;

/// Why the file is not guarded so; empty: it is.
std::string complaint(const struct stat& about, Guard guard, const std::string& path) {
  const bool secret = guard == Guard::Secret;
  const mode_t mode = about.st_mode & kPermissions;
  if (!S_ISREG(about.st_mode)) return "cannot be read: it is no regular file";
  if (about.st_uid != ::geteuid() && (secret || about.st_uid != 0)) {
    return fmt::format("belongs to user id {}, expected a file of this user, {}{}: whoever owns it can join the job",
                       about.st_uid, ::geteuid(), secret ? "" : ", or of root");
  }
  if (secret && (mode & kOthers) != 0) {
    return fmt::format(
        "has mode {:04o}, expected 0600 or less: other users of this host could join the job; "
        "chmod 600 {}",
        mode, path);
  }
  if ((mode & kOthersWrite) != 0) {
    return fmt::format(
        "has mode {:04o}, expected that only its owner can write it: others could let themselves into "
        "the job; chmod go-w {}",
        mode, path);
  }
  return {};
}

}  // namespace

std::string guarded_file(std::string_view setting, const std::string& path, Guard guard, std::size_t most,
                         std::string_view instead) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::InvalidArgument, fmt::format("{}={}: {}", setting, path, why));
  };
  // O_NONBLOCK: a name that leads to a pipe must not hold the job up.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0)
    refuse(fmt::format("cannot be read ({}), expected a file that holds {}", std::strerror(errno), instead));
  if (const std::string why = complaint(about, guard, path); !why.empty()) refuse(why);
  std::string content(most + 1, '\0');
  std::size_t have = 0;
  ssize_t got = 0;
  do {
    got = ::read(file.get(), content.data() + have, content.size() - have);
    if (got > 0) have += static_cast<std::size_t>(got);
  } while (got > 0 || (got < 0 && errno == EINTR));
  if (got < 0) refuse(fmt::format("cannot be read ({})", std::strerror(errno)));
  if (have > most) refuse(fmt::format("holds more than {} bytes, expected {}", most, instead));
  content.resize(have);
  return content;
}

}  // namespace sinew
