#pragma once

#include <span>
#include <string>
#include <utility>

#include <sinew/core/buffer.hpp>

namespace sinew {

/// Registered memory: transports take it without copies. Frees itself.
/// Lifetime: the calls that use it end before it. That of World::allocate may outlive its World; that of
///           Communicator::allocate may not. On a device as() is for device code: the host must not touch it.
class Memory {
 public:
  Memory() = default;
  Memory(Region region, std::string known_as) noexcept : region_(std::move(region)), known_as_(std::move(known_as)) {}
  Buffer buffer() const noexcept { return region_.memory; }
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(region_.memory.data), region_.memory.bytes / sizeof(T)};
  }
  /// What it is to whom: "shared memory of shm", "a window of NCCL 2.28.9", or why it is like any other memory.
  const std::string& known_as() const noexcept { return known_as_; }

 private:
  Region region_;
  std::string known_as_;
};

}  // namespace sinew
