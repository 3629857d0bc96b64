#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <sinew/core/buffer.hpp>
#include <sinew/tools/bench/cases/bench_case.hpp>

namespace sinew::tools {

/// The memory of a ring: the bytes that were asked for, aligned to a page. It lives as long as `hold`.
struct RingMemory {
  std::byte* data = nullptr;  ///< for calls
  std::shared_ptr<void> hold;
  Place place{};
  std::byte* host = nullptr;  ///< where inputs are written and outputs read; null: `data` itself
  /// `give` copies the first `bytes` bytes from `host` to `data`, and `take` copies them back. The copy is complete on
  /// return. Both are empty if calls use the host's memory itself.
  std::function<void(std::size_t bytes)> give{};
  std::function<void(std::size_t bytes)> take{};
};
using RingAllocator = std::function<RingMemory(std::size_t bytes)>;

/// Ordinary memory of this process; pages come when they are touched.
RingMemory ordinary_memory(std::size_t bytes);

/// Slots with a pair of an input and an output each. Every call of a batch uses the next slot, so that it finds buffers
/// as the host left them. Each pair lies on cache lines of its own. In place, both buffers are views of the larger one.
class BufferRing {
 public:
  /// There are as many slots as fit `most_bytes`, at least 1 and at most `most_slots`.
  BufferRing(const RankData& data, std::size_t element_bytes, bool in_place, std::size_t most_slots,
             std::size_t most_bytes, const RingAllocator& allocate);

  std::size_t slots() const noexcept { return slots_; }
  /// The buffers that calls get.
  Buffer in(std::size_t slot) const noexcept { return {memory_.data + at(slot, in_offset_), in_bytes_, memory_.place}; }
  Buffer out(std::size_t slot) const noexcept {
    return {memory_.data + at(slot, out_offset_), out_bytes_, memory_.place};
  }
  /// The buffers that the host writes and reads between calls.
  Buffer host_in(std::size_t slot) const noexcept { return {host() + at(slot, in_offset_), in_bytes_}; }
  Buffer host_out(std::size_t slot) const noexcept { return {host() + at(slot, out_offset_), out_bytes_}; }
  /// Copy the first `slots` slots: give() after the host has written them, take() before the host reads them.
  void give(std::size_t slots) const {
    if (memory_.give) memory_.give(slots * stride_);
  }
  void take(std::size_t slots) const {
    if (memory_.take) memory_.take(slots * stride_);
  }

 private:
  std::size_t at(std::size_t slot, std::size_t offset) const noexcept { return slot % slots_ * stride_ + offset; }
  std::byte* host() const noexcept { return memory_.host != nullptr ? memory_.host : memory_.data; }

  std::size_t in_bytes_;
  std::size_t out_bytes_;
  std::size_t in_offset_ = 0;
  std::size_t out_offset_ = 0;
  std::size_t stride_ = 0;
  std::size_t slots_ = 1;
  RingMemory memory_;
};

}  // namespace sinew::tools
