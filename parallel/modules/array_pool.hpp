#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace sinew::parallel {

/// An array that goes back to its pool at the end of its life. Move-only.
template <class T>
class PooledArray;

/// Arrays that passes use again and again. An array keeps its length, and serves every later request for that length.
/// Shape:    elements are not set to zero.
/// Thread:   one at a time.
/// Lifetime: arrays may outlive the pool object; its memory lives as long as the last of them.
template <class T>
class ArrayPool {
 public:
  PooledArray<T> take(std::int64_t elements);
  /// Bytes of all arrays of the pool, whether they are in use or not.
  std::size_t held_bytes() const noexcept { return state_->held; }

 private:
  friend class PooledArray<T>;
  struct State {
    std::map<std::size_t, std::vector<std::unique_ptr<T[]>>> idle{};  // by length
    std::size_t held = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <class T>
class PooledArray {
 public:
  PooledArray() = default;
  PooledArray(PooledArray&& other) noexcept
      : pool_(std::move(other.pool_)), data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  PooledArray& operator=(PooledArray&& other) noexcept {
    give_back();
    pool_ = std::move(other.pool_);
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~PooledArray() { give_back(); }

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }

 private:
  friend class ArrayPool<T>;
  void give_back() noexcept {
    if (data_) pool_->idle[size_].push_back(std::move(data_));
    size_ = 0;
  }

  std::shared_ptr<typename ArrayPool<T>::State> pool_{};
  std::unique_ptr<T[]> data_{};
  std::size_t size_ = 0;
};

template <class T>
PooledArray<T> ArrayPool<T>::take(std::int64_t elements) {
  PooledArray<T> array;
  array.size_ = static_cast<std::size_t>(elements);
  auto& idle = state_->idle[array.size_];
  if (idle.empty()) {
    idle.reserve(1);
    array.data_ = std::make_unique_for_overwrite<T[]>(array.size_);
    state_->held += array.size_ * sizeof(T);
  } else {
    array.data_ = std::move(idle.back());
    idle.pop_back();
  }
  array.pool_ = state_;
  return array;
}

}  // namespace sinew::parallel
