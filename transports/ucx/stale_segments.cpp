#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <sinew/core/log.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ucx/stale_segments.hpp>

namespace sinew::ucx {
namespace {

namespace files = std::filesystem;
using std::chrono::system_clock;  // files have the time of day

constexpr std::string_view kPrefix = "ucx_shm_posix_";
/// Between making a file and having it open its maker may be held up.
constexpr auto kYoung = std::chrono::seconds(10);

bool is_segment_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

bool is_old_file_of_this_user(const struct stat& s) {
  return S_ISREG(s.st_mode) && s.st_uid == ::geteuid() &&
         system_clock::from_time_t(s.st_mtim.tv_sec) + kYoung < system_clock::now();  // time of day
}

/// A write lease is granted to the only one who has a file open. Who opens it meanwhile makes the kernel signal us: not
/// by SIGIO, which would end the process.
bool is_open_here_alone(int file) {
  return ::fcntl(file, F_SETSIG, SIGURG) == 0 && ::fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

}  // namespace

int remove_stale_segments(const files::path& folder) {
  int removed = 0;
  std::error_code failed;
  for (const auto& entry : files::directory_iterator(folder, failed)) {
    if (!is_segment_name(entry.path().filename().native())) continue;
    struct stat s {};
    if (::lstat(entry.path().c_str(), &s) != 0 || !is_old_file_of_this_user(s)) continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0 || !is_open_here_alone(file.get()) || ::unlink(entry.path().c_str()) != 0) continue;
    ++removed;
    log::debug("ucx: removed {}, which nobody uses any more", entry.path().native());
  }
  return removed;
}

files::path segment_folder() {
  const char* chosen = std::getenv("UCX_POSIX_DIR");
  return chosen == nullptr ? "/dev/shm" : chosen;
}

}  // namespace sinew::ucx
