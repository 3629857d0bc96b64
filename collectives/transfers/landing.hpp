#pragma once

#include <cstddef>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// Host memory for a plain message that may come where a card is expected. The memory is mapped, but it takes no room
/// before a message is written to it.
class SINEW_API Landing {
 public:
  Landing() noexcept = default;
  /// Errors: Error{System} if the kernel maps no more memory.
  explicit Landing(std::size_t bytes);
  ~Landing() { reset(); }
  Landing(Landing&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Landing& operator=(Landing&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }

  explicit operator bool() const noexcept { return memory_.data != nullptr; }
  Buffer memory() const noexcept { return memory_; }
  void reset() noexcept;

 private:
  Buffer memory_;
};

}  // namespace sinew
