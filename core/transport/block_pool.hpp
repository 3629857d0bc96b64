#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace sinew {

/// Memory for unexpected messages. It keeps a free list for each power of two, so a program that repeats its calls
/// allocates no more after a while.
/// Thread:   one at a time.
/// Lifetime: all blocks are given back before the pool is destroyed.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() {
    for (Free* list : free_) {
      while (list != nullptr) ::operator delete(std::exchange(list, list->next));
    }
  }

  /// Returns at least `bytes` bytes, aligned for any scalar.
  void* take(std::size_t bytes) {
    const std::size_t k = size_class(bytes);
    if (Free* block = free_[k]) {
      free_[k] = block->next;
      return block;
    }
    return ::operator new(kSmallest << k);
  }
  /// Gives a block back. `bytes` is the number that was passed to take().
  void give(void* block, std::size_t bytes) noexcept {
    Free*& list = free_[size_class(bytes)];
    list = new (block) Free{list};
  }

 private:
  struct Free {
    Free* next;
  };
  static constexpr std::size_t kSmallest = 64;

  static std::size_t size_class(std::size_t bytes) noexcept {
    return bytes <= kSmallest ? 0 : static_cast<std::size_t>(std::bit_width((bytes - 1) / kSmallest));
  }

  std::array<Free*, 58> free_{};
};

}  // namespace sinew
