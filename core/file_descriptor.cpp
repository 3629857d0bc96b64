#include <unistd.h>

#include <sinew/core/file_descriptor.hpp>

namespace sinew {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace sinew
