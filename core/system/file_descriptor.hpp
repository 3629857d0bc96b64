#pragma once

#include <utility>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Owns a descriptor. Move-only. A move assignment swaps, so the other object closes this one's old descriptor.
/// Fork: a child of fork() does not keep the open file, so that a connection, a listener or a name ends with the
///       process that opened it, whatever its children do. Until the child closes it, the number stands for a
///       descriptor that does nothing (core/system/private_descriptors.hpp).
class SINEW_API FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int fd) noexcept;
  /// One that a child of fork() keeps: for who forks in order to hand it on.
  static FileDescriptor kept_by_children(int fd) noexcept;
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;

 private:
  int fd_ = -1;
};

}  // namespace sinew
