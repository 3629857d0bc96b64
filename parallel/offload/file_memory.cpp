#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fmt/format.h>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/offload/file_memory.hpp>
#include <sinew/parallel/offload/scratch_file.hpp>

namespace sinew::parallel {

Memory FileMemory::operator()(std::size_t bytes) const {
  const FileDescriptor file = scratch_file(folder_);
  const std::size_t length = std::max<std::size_t>(bytes, 1);  // nothing cannot be mapped
  const auto what = [&] { return fmt::format("offload to a scratch file in '{}': {} bytes", folder_, bytes); };
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(length));
  if (error != 0) throw_errno(what(), error);
  void* const at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) throw_errno(what());
  const std::shared_ptr<const void> hold(at, [length](void* mapped) { ::munmap(mapped, length); });
  return {Region{{static_cast<std::byte*>(at), bytes}, hold}, "a scratch file"};
}

}  // namespace sinew::parallel
