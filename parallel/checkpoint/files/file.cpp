#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/files/file.hpp>

namespace sinew::parallel {

NewFile::NewFile(std::string path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (!file_) throw_errno(path_);
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw_errno(fmt::format("{}: after {} bytes, {} to go", path_, written_, bytes.size()), n < 0 ? errno : EIO);
    written_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void NewFile::finish() {
  if (::fsync(file_.get()) != 0) throw_errno(fmt::format("{}: its {} bytes to the disk", path_, written_));
  if (::close(file_.release()) != 0) throw_errno(fmt::format("{}: closing it after {} bytes", path_, written_));
}

StoredBytes::StoredBytes(std::string path, std::uint64_t expected_bytes)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat found {};
  if (!file_ || ::fstat(file_.get(), &found) != 0) throw_errno(path_);
  if (static_cast<std::uint64_t>(found.st_size) != expected_bytes)
    throw Error(Code::InvalidArgument, fmt::format("{}: {} bytes, expected {}", path_, found.st_size, expected_bytes));
}

void StoredBytes::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t n = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_errno(fmt::format("{}: {} bytes from {} on", path_, into.size(), offset), n < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(n);
    into = into.subspan(static_cast<std::size_t>(n));
  }
}

void sync_folder(const std::string& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) throw_errno(folder);
}

}  // namespace sinew::parallel
