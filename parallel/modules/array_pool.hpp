#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <sinew/parallel/compute/placed_array.hpp>

namespace sinew::parallel {

/// An array that goes back to its pool at the end of its life. Move-only.
template <class T>
class PooledArray;

/// Arrays that passes use again and again. A request gets an idle array that is at most an eighth longer, or a new one.
/// So requests of many different lengths share arrays.
/// The number of rows may vary from pass to pass, as that of the rows that come to a rank's experts does. Arrays for
/// such rows are shared among themselves only. A request gets the shortest idle array that is long enough. If all idle
/// arrays are too short, the longest of them is freed, and a new one is made. So there are never more such arrays than
/// were in use at once.
/// Arrays are in the memory in which the engine computes. On a device an array may be taken again while the stream
/// still works on it, because later work follows on the same stream.
/// Shape:    elements are not set to zero.
/// Thread:   one at a time.
/// Lifetime: arrays may outlive the pool object; its memory lives as long as the last of them. The device outlives
///           them.
/// Errors:   take() throws what the allocation throws.
template <class T>
class ArrayPool {
 public:
  explicit ArrayPool(const ComputeDevice& device = {}) { state_->device = device; }

  const ComputeDevice& device() const noexcept { return state_->device; }
  /// varying: 0, or the elements of a row if the number of rows varies.
  PooledArray<T> take(std::int64_t elements, std::int64_t varying = 0);
  /// Bytes of all arrays of the pool, whether they are in use or not.
  std::size_t held_bytes() const noexcept { return state_->held; }

 private:
  friend class PooledArray<T>;
  struct OneLength {
    std::vector<PlacedMemory<T>> idle{};
    std::size_t made = 0;
  };
  struct Idle {
    std::size_t length = 0;
    PlacedMemory<T> data{};
  };
  struct OneWidth {
    std::vector<Idle> idle{};
    std::size_t made = 0;  // and not given way
  };
  struct State {
    ComputeDevice device{};
    std::map<std::size_t, OneLength> lengths{};
    std::map<std::int64_t, OneWidth> varying{};  // by the elements of a row
    std::size_t held = 0;                        // bytes
  };
  void take_varying(OneWidth& of_width, PooledArray<T>& array);
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
        room_(other.room_),
        varying_(other.varying_) {}
  PooledArray& operator=(PooledArray&& other) noexcept {
    give_back();
    pool_ = std::move(other.pool_);
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    room_ = other.room_;
    varying_ = other.varying_;
    return *this;
  }
  ~PooledArray() { give_back(); }

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + size_; }
  /// As ArrayPool::take() was told.
  std::int64_t varying() const noexcept { return varying_; }

 private:
  friend class ArrayPool<T>;
  void give_back() noexcept {
    if (data_ && varying_ > 0) pool_->varying.find(varying_)->second.idle.push_back({room_, std::move(data_)});
    if (data_) pool_->lengths.find(room_)->second.idle.push_back(std::move(data_));
    size_ = 0;
  }

  std::shared_ptr<typename ArrayPool<T>::State> pool_{};
  PlacedMemory<T> data_{};
  std::size_t size_ = 0, room_ = 0;  // room_: elements of the array itself
  std::int64_t varying_ = 0;
};

template <class T>
PooledArray<T> ArrayPool<T>::take(std::int64_t elements, std::int64_t varying) {
  PooledArray<T> array;
  array.size_ = static_cast<std::size_t>(elements);
  array.pool_ = state_;
  if (varying > 0 && elements > 0) {
    array.varying_ = varying;
    take_varying(state_->varying[varying], array);
    return array;
  }
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
  array.data_ = allocate_placed<T>(state_->device, array.size_);
  ++of_length.made;
  state_->held += array.size_ * sizeof(T);
  return array;
}

template <class T>
void ArrayPool<T>::take_varying(OneWidth& of_width, PooledArray<T>& array) {
  std::vector<Idle>& idle = of_width.idle;
  const auto take_out = [&](auto at) {
    Idle taken = std::move(*at);
    if (at != std::prev(idle.end())) *at = std::move(idle.back());
    idle.pop_back();
    return taken;
  };
  const auto fits = [&](const Idle& i) { return i.length >= array.size_; };
  auto best = std::ranges::find_if(idle, fits);
  for (auto at = best; at != idle.end(); ++at) {
    if (fits(*at) && at->length < best->length) best = at;
  }
  if (best != idle.end()) {
    Idle taken = take_out(best);
    array.room_ = taken.length;
    array.data_ = std::move(taken.data);
    return;
  }
  if (!idle.empty()) {
    state_->held -= take_out(std::ranges::max_element(idle, {}, &Idle::length)).length * sizeof(T);
    --of_width.made;
  }
  idle.reserve(of_width.made + 1);  // giving back must not fail
  array.data_ = allocate_placed<T>(state_->device, array.size_);
  array.room_ = array.size_;
  ++of_width.made;
  state_->held += array.size_ * sizeof(T);
}

}  // namespace sinew::parallel
