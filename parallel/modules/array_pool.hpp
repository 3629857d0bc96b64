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

/// Arrays that passes use again and again. A request gets an idle array that is at most an eighth longer, or a new one.
/// So requests of many different lengths share arrays.
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
      : pool_(std::move(other.pool_)),
        data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        room_(other.room_) {}
  PooledArray& operator=(PooledArray&& other) noexcept {
    give_back();
    pool_ = std::move(other.pool_);
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    room_ = other.room_;
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
    if (data_) pool_->lengths.find(room_)->second.idle.push_back(std::move(data_));
    size_ = 0;
  }

  std::shared_ptr<typename ArrayPool<T>::State> pool_{};
  std::unique_ptr<T[]> data_{};
  std::size_t size_ = 0, room_ = 0;  // room_: elements of the array itself
};

template <class T>
PooledArray<T> ArrayPool<T>::take(std::int64_t elements) {
  PooledArray<T> array;
  array.size_ = static_cast<std::size_t>(elements);
  array.pool_ = state_;
  auto& lengths = state_->lengths;
  const auto first = lengths.lower_bound(array.size_);
  for (auto fit = first; fit != lengths.end() && fit->first <= array.size_ + array.size_ / 8; ++fit) {
    if (fit->second.idle.empty()) continue;
    array.room_ = fit->first;
    array.data_ = std::move(fit->second.idle.back());
    fit->second.idle.pop_back();
    return array;
  }
  auto& of_length = lengths[array.size_];
  of_length.idle.reserve(of_length.made + 1);  // giving back must not fail
  array.room_ = array.size_;
  array.data_ = std::make_unique_for_overwrite<T[]>(array.size_);
  ++of_length.made;
  state_->held += array.size_ * sizeof(T);
  return array;
}

}  // namespace sinew::parallel
