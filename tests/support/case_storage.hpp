#pragma once

#include <cstddef>
#include <vector>

#include <sinew/core/transport/drain.hpp>

#include "support/collective_case.hpp"

namespace sinew::test {

/// A buffer at a chosen misalignment, filled with a value that no result has; on a device with a copy on the host.
class Storage {
 public:
  static constexpr std::byte kUntouched{0xa5};

  Storage(std::size_t bytes, std::size_t offset, const OnDevice* where)
      : host_(bytes + offset, kUntouched), offset_(offset), where_(where) {
    if (where_ == nullptr) return;
    const int device = where_->stream.device;
    device_ = where_->runtime.allocate(host_.size(), {MemoryKind::Device, device});
  }
  ~Storage() {
    if (where_ != nullptr) where_->runtime.release(device_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// What the test writes and reads.
  Buffer host() { return {host_.data() + offset_, host_.size() - offset_}; }
  /// What the call is given.
  Buffer call() { return where_ == nullptr ? host() : device_.part(offset_, host_.size() - offset_); }
  /// To the device, enqueued on the stream that the call starts after.
  void give() {
    if (where_ == nullptr || host_.empty()) return;
    where_->runtime.copy_async(device_, Buffer{host_.data(), host_.size()}, where_->stream);
  }
  void take() {
    if (where_ == nullptr || host_.empty()) return;
    where_->runtime.copy_async({host_.data(), host_.size()}, device_, where_->stream);
    drain(where_->runtime, where_->stream);
  }

 private:
  std::vector<std::byte> host_;
  std::size_t offset_;
  const OnDevice* where_;
  Buffer device_;
};

}  // namespace sinew::test
