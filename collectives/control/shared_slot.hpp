#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sinew {

/// A value in memory shared between processes: one process writes it, one thread at a time, the others read it while
/// it may be written again. Zeroed memory is an empty slot. Every write has a serial number of its own, from 1 up.
template <class T>
  requires std::is_trivially_copyable_v<T>
class SharedSlot {
 public:
  void write(std::uint64_t serial, const T& value) noexcept {
    Words words{};
    std::memcpy(words.data(), &value, sizeof value);
    serial_.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_relaxed);
    serial_.store(serial, std::memory_order_release);
  }
  std::uint64_t serial() const noexcept { return serial_.load(std::memory_order_acquire); }
  /// false: it holds another serial, or is being written.
  bool read(std::uint64_t serial, T& value) const noexcept {
    if (serial == 0 || serial_.load(std::memory_order_acquire) != serial) return false;
    Words words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (serial_.load(std::memory_order_relaxed) != serial) return false;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return true;
  }

 private:
  using Words = std::array<std::uint64_t, (sizeof(T) + 7) / 8>;

  std::atomic<std::uint64_t> serial_;
  std::array<std::atomic<std::uint64_t>, (sizeof(T) + 7) / 8> words_;
};

}  // namespace sinew
