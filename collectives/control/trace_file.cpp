#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

FileDescriptor create_private_file(const std::string& path) {
  std::error_code error;  // which creating the file shows, too
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  ::unlink(path.c_str());  // an old one may still be mapped by whoever looks at it
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) throw_errno(fmt::format("SINEW_TRACE: creating {}", path));
  return file;
}

void take_room(const FileDescriptor& file, std::size_t first, std::size_t bytes, const std::string& what) {
  // Beyond its limit the kernel sends a signal that ends the process.
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  int error = limited && first + bytes > limit.rlim_cur ? EFBIG : 0;
  if (error == 0) error = ::posix_fallocate(file.get(), static_cast<off_t>(first), static_cast<off_t>(bytes));
  if (error == 0) return;
  errno = error;
  throw_errno(what, error);
}

std::shared_ptr<std::byte> create_mapped_file(const std::string& path, std::size_t bytes) {
  const FileDescriptor file = create_private_file(path);
  take_room(file, 0, bytes, fmt::format("SINEW_TRACE: {} bytes for {}", bytes, path));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw_errno(fmt::format("SINEW_TRACE: mapping {}", path));
  return {static_cast<std::byte*>(memory), [bytes](std::byte* m) { ::munmap(m, bytes); }};
}

std::shared_ptr<const std::byte> map_file(const std::string& path, std::size_t bytes) noexcept {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes) return nullptr;
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<const std::byte*>(memory),
          [bytes](const std::byte* m) { ::munmap(const_cast<std::byte*>(m), bytes); }};
}

}  // namespace sinew
