#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/metrics/metrics_file.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {
namespace {

/// Returns false, and leaves the reason in errno, if the file cannot be made or does not take all of the text.
bool write_whole(const std::string& path, const std::string& text, struct stat& written) {
  ::unlink(path.c_str());  // a process of the same number may have left one
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return false;
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t took = ::write(file.get(), text.data() + at, text.size() - at);
    if (took < 0 && errno == EINTR) continue;
    if (took <= 0) return false;
    at += static_cast<std::size_t>(took);
  }
  return ::fstat(file.get(), &written) == 0;
}

}  // namespace

void MetricsFile::write(const std::string& text) {
  look_for_another_writer();
  const std::string beside = fmt::format("{}.{}.tmp", path_, ::getpid());
  struct stat written {};
  if (write_whole(beside, text, written) && ::rename(beside.c_str(), path_.c_str()) == 0) {
    device_ = written.st_dev;
    number_ = written.st_ino;
    return;
  }
  const int error = errno;
  ::unlink(beside.c_str());
  warn(std::generic_category().message(error));
}

void MetricsFile::look_for_another_writer() {
  struct stat there {};
  if (number_ == 0 || ::stat(path_.c_str(), &there) != 0) return;
  if (there.st_ino != number_ || there.st_dev != device_)
    warn("another process writes it, too; expected a path for each job, such as one with %p for the process");
}

void MetricsFile::warn(const std::string& what) {
  if (!std::exchange(has_warned_, true)) log::warning("SINEW_METRICS_FILE={}: {}", path_, what);
}

}  // namespace sinew
