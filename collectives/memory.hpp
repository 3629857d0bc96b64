#pragma once

#include <span>
#include <string>
#include <utility>

#include <sinew/core/buffer.hpp>

namespace sinew {

/// Registered memory, which transports use without copies. The destructor frees it.
/// Lifetime: calls that use the memory must end first. Memory of World::allocate may outlive its World. Memory of
///           Communicator::allocate may not.
class Memory {
 public:
  Memory() = default;
  Memory(Region region, std::string known_as) noexcept : region_(std::move(region)), known_as_(std::move(known_as)) {}
  Buffer buffer() const noexcept { return region_.memory; }
  /// The memory as elements. The host must not read or write them if the memory is on a device.
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(region_.memory.data), region_.memory.bytes / sizeof(T)};
  }
  /// Says how it is registered, such as "shared memory of shm" or "a window of NCCL 2.28.9", or why it is not.
  const std::string& known_as() const noexcept { return known_as_; }

 private:
  Region region_;
  std::string known_as_;
};

}  // namespace sinew
