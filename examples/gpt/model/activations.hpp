#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace gpt {

/// Memory of activations, and its account. Each piece begins on a cache line, and starts as zeros.
class Activations {
 public:
  enum class Kind { Memory, AccountOnly };  ///< the latter: pieces have a length and no place
  explicit Activations(Kind kind = Kind::Memory) noexcept : kind_(kind) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + kLine - 1) / kLine * kLine;
    bytes_ += bytes;
    if (kind_ == Kind::AccountOnly) return {static_cast<T*>(nullptr), count};
    pieces_.emplace_back(new (std::align_val_t{kLine}) std::byte[bytes]());
    return {reinterpret_cast<T*>(pieces_.back().get()), count};
  }
  /// Counts in an account what somebody else will hold.
  template <class T>
  void reckon(std::size_t count) {
    if (kind_ == Kind::AccountOnly) bytes_ += count * sizeof(T);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kLine = 64;
  struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{kLine}); }
  };

  Kind kind_;
  std::vector<std::unique_ptr<std::byte[], Free>> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace gpt
