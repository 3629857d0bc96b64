#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <initializer_list>

namespace sinew {

/// A vector of at most N elements inside the object: copyable plain data for values that travel between ranks.
template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(std::initializer_list<T> values) {
    for (const T& v : values) push_back(v);
  }

  void push_back(const T& value) {
    assert(count_ < N);
    items_[count_++] = value;
  }
  void clear() noexcept { count_ = 0; }

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == N; }
  static constexpr std::size_t capacity() noexcept { return N; }

  T& operator[](std::size_t i) noexcept { return items_[i]; }
  const T& operator[](std::size_t i) const noexcept { return items_[i]; }
  T& back() noexcept { return items_[count_ - 1]; }
  const T& back() const noexcept { return items_[count_ - 1]; }
  T* begin() noexcept { return items_.data(); }
  T* end() noexcept { return items_.data() + count_; }
  const T* begin() const noexcept { return items_.data(); }
  const T* end() const noexcept { return items_.data() + count_; }

 private:
  std::array<T, N> items_{};
  std::size_t count_ = 0;
};

}  // namespace sinew
