#include <unistd.h>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/private_descriptors.hpp>

namespace sinew {

FileDescriptor::FileDescriptor(int fd) noexcept : fd_(fd) { PrivateDescriptors::add(fd); }

FileDescriptor FileDescriptor::kept_by_children(int fd) noexcept {
  FileDescriptor kept;
  kept.fd_ = fd;
  return kept;
}

int FileDescriptor::release() noexcept {
  PrivateDescriptors::remove(fd_);
  return std::exchange(fd_, -1);
}

FileDescriptor::~FileDescriptor() {
  if (fd_ < 0) return;
  PrivateDescriptors::remove(fd_);
  ::close(fd_);
}

}  // namespace sinew
