#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/kernels/compute_device.hpp>
#include <sinew/parallel/kernels/release.hpp>

namespace sinew::parallel {

/// The place of memory in which an engine computes.
inline Place place_of(const ComputeDevice& device) noexcept {
  return device.exists() ? Place{MemoryKind::Device, device.stream.device} : Place{};
}

/// Elements as a call takes them.
template <class T>
Buffer placed(const ComputeDevice& device, T* data, std::int64_t elements) noexcept {
  return {reinterpret_cast<std::byte*>(data), static_cast<std::size_t>(elements) * sizeof(T), place_of(device)};
}
template <class T>
ConstBuffer placed(const ComputeDevice& device, const T* data, std::int64_t elements) noexcept {
  return {reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(elements) * sizeof(T), place_of(device)};
}
/// Options of a call that starts after the work that is on the device's stream.
inline CallOptions in_order(const ComputeDevice& device, CallOptions options = {}) noexcept {
  if (device.exists()) options.after = device.stream;
  return options;
}

/// Frees memory of the host, or of a device as release_after_work().
struct FreePlaced {
  ComputeDevice device{};  // {}: the host
  std::size_t bytes = 0;

  template <class T>
  void operator()(T* data) const noexcept {
    if (!device.exists()) {
      delete[] data;
    } else {
      release_after_work(device, Buffer{reinterpret_cast<std::byte*>(data), bytes, place_of(device)});
    }
  }
};
template <class T>
using PlacedMemory = std::unique_ptr<T[], FreePlaced>;

/// Memory for elements in which no value has been written. It has an address for no elements, too.
/// Errors: Error{System} with the runtime's text if a device has no more memory. std::bad_alloc on the host.
template <class T>
PlacedMemory<T> allocate_placed(const ComputeDevice& device, std::size_t elements) {
  if (!device.exists()) return PlacedMemory<T>(new T[elements], FreePlaced{});
  const std::size_t bytes = std::max<std::size_t>(elements, 1) * sizeof(T);
  const Buffer memory = device.runtime->allocate(bytes, place_of(device));
  return PlacedMemory<T>(reinterpret_cast<T*>(memory.data), {device, bytes});
}

/// An array in the memory in which an engine computes. Move-only.
/// T: a type that may be copied byte by byte.
template <class T>
class PlacedArray {
 public:
  PlacedArray() = default;
  PlacedArray(const ComputeDevice& device, std::size_t elements)
      : device_(device), data_(elements == 0 ? nullptr : allocate_placed<T>(device, elements)), size_(elements) {}
  PlacedArray(PlacedArray&& other) noexcept { swap(other); }
  PlacedArray& operator=(PlacedArray&& other) noexcept {
    swap(other);
    return *this;
  }

  T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

  /// Copies all elements to the host. On a device, waits until the work that is on the stream now has run.
  void read(std::span<T> to) const {
    if (size_ == 0) return;
    if (!device_.exists()) {
      std::copy_n(data(), size_, to.begin());
      return;
    }
    device_.runtime->copy_async(Buffer(reinterpret_cast<std::byte*>(to.data()), to.size_bytes()), ConstBuffer(buffer()),
                                device_.stream);
    drain(*device_.runtime, device_.stream);
  }
  Buffer buffer() const noexcept {
    return {reinterpret_cast<std::byte*>(data()), size_ * sizeof(T), place_of(device_)};
  }

 private:
  void swap(PlacedArray& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  ComputeDevice device_{};
  PlacedMemory<T> data_{};
  std::size_t size_ = 0;
};

/// Small arrays of the host, such as tokens, as the work of a pass finds them in the memory in which it computes.
/// T: a type that may be copied byte by byte.
/// Lifetime: longer than that of the work on the device's stream.
template <class T>
class PlacedCopy {
 public:
  PlacedCopy() = default;
  PlacedCopy(const PlacedCopy&) = delete;
  PlacedCopy& operator=(const PlacedCopy&) = delete;
  PlacedCopy(PlacedCopy&&) noexcept = default;
  PlacedCopy& operator=(PlacedCopy&&) noexcept = default;
  ~PlacedCopy() {
    for (const Staged& staged : staged_) device_.runtime->release(staged.copied);
  }

  /// Returns the values at an address that work may use until the next call. On the host it is that of `values`. On a
  /// device the values are copied in the order of the stream, unless they are those of the last call. `values` may
  /// change as soon as this returns.
  const T* of(const ComputeDevice& device, std::span<const T> values) {
    if (!device.exists()) return values.data();
    device_ = device;
    DeviceRuntime& runtime = *device.runtime;
    while (staged_.size() > 1 && runtime.query(staged_.front().copied)) {
      runtime.release(staged_.front().copied);
      staged_.pop_front();
    }
    if (!staged_.empty() && std::ranges::equal(staged_.back().values, values)) return array_.data();
    if (array_.size() < values.size()) array_ = PlacedArray<T>(device, values.size());
    Staged& staged = staged_.emplace_back(std::vector<T>(values.begin(), values.end()));
    if (!values.empty())
      runtime.copy_async(Buffer(reinterpret_cast<std::byte*>(array_.data()), values.size_bytes(), place_of(device)),
                         ConstBuffer(reinterpret_cast<const std::byte*>(staged.values.data()), values.size_bytes()),
                         device.stream);
    staged.copied = runtime.record(device.stream);
    return array_.data();
  }

 private:
  /// Values that are copied from the host when the stream comes there.
  struct Staged {
    std::vector<T> values;
    DeviceRuntime::Event copied = 0;
  };

  ComputeDevice device_{};
  PlacedArray<T> array_{};
  std::deque<Staged> staged_{};
};

}  // namespace sinew::parallel
