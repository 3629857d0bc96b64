#pragma once

#include <algorithm>
#include <bit>
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

/// Arrays that passes use again and again. Their room is of some lengths only, each up to an eighth longer than the one
/// before. So requests of many different lengths share arrays.
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
  struct OneLength {
    std::vector<std::unique_ptr<T[]>> idle{};
    std::size_t made = 0;
  };
  struct State {
    std::map<std::size_t, OneLength> lengths{};
    std::size_t held = 0;  // bytes
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
  /// The first length of an array that holds so many elements.
  static std::size_t room_for(std::size_t elements) noexcept {
    constexpr int kSteps = 3;  // 2^3 lengths up to each power of two
    const int shift = std::max(0, static_cast<int>(std::bit_width(elements)) - 1 - kSteps);
    const std::size_t step = std::size_t{1} << shift;
    return (elements + step - 1) / step * step;
  }
  void give_back() noexcept {
    if (data_) pool_->lengths.find(room_for(size_))->second.idle.push_back(std::move(data_));
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
  const std::size_t room = PooledArray<T>::room_for(array.size_);
  auto& of_length = state_->lengths[room];
  if (of_length.idle.empty()) {
    of_length.idle.reserve(of_length.made + 1);  // giving back must not fail
    array.data_ = std::make_unique_for_overwrite<T[]>(room);
    ++of_length.made;
    state_->held += room * sizeof(T);
  } else {
    array.data_ = std::move(of_length.idle.back());
    of_length.idle.pop_back();
  }
  array.pool_ = state_;
  return array;
}

}  // namespace sinew::parallel
