#include "rotated_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew::run {

RotatedFile::RotatedFile(std::string path, Rotation rotation) : path_(std::move(path)), rotation_(rotation) { open(); }

void RotatedFile::open() {
  constexpr int kMode = 0666;  // without what umask takes away
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file_) throw_errno(path_);
  written_ = 0;
}

void RotatedFile::rotate() {
  for (int k = rotation_.kept; k > 0; --k) {
    const std::string from = k == 1 ? path_ : fmt::format("{}.{}", path_, k - 1);
    if (std::rename(from.c_str(), fmt::format("{}.{}", path_, k).c_str()) != 0 && errno != ENOENT) throw_errno(from);
  }
  open();
}

void RotatedFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::uint64_t room = rotation_.bytes - written_;
    if (rotation_.bytes == 0 || bytes.size() <= room) return append(bytes);
    const std::size_t line_end = bytes.substr(0, room).rfind('\n');
    const std::uint64_t first_line = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
    const bool fits_nowhere = first_line > rotation_.bytes;
    const std::size_t now = line_end != std::string_view::npos ? line_end + 1 : fits_nowhere ? room : 0;
    append(bytes.substr(0, now));
    bytes.remove_prefix(now);
    rotate();
  }
}

void RotatedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_errno(path_);
    written_ += static_cast<std::uint64_t>(done);
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace sinew::run
