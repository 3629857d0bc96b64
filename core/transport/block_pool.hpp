#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace sinew {

/// Memory for messages that wait for their receive: free lists by power of two, so that a steady state allocates
/// nothing. Thread: one at a time. Lifetime: blocks go back before the pool ends.
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

  /// At least `bytes`, aligned for any scalar.
  void* take(std::size_t bytes) {
    const std::size_t k = size_class(bytes);
    if (Free* block = free_[k]) {
      free_[k] = block->next;
      return block;
    }
    return ::operator new(kSmallest << k);
  }
  /// `bytes` as given to take.
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
