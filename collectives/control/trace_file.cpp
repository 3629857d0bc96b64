#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <sinew/collectives/control/trace_file.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/file_descriptor.hpp>

namespace sinew {

std::shared_ptr<std::byte> create_mapped_file(const std::string& path, std::size_t bytes) {
  ::unlink(path.c_str());  // an old one may still be mapped by whoever looks at it
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno(fmt::format("SINEW_TRACE: creating {}", path));
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
