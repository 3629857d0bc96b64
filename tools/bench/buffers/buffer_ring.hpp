#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <sinew/core/buffer.hpp>
#include <sinew/tools/bench/cases/bench_case.hpp>

namespace sinew::tools {

/// Where the memory of a ring comes from: so many bytes, aligned to a page, alive as long as the pointer.
struct RingMemory {
  std::byte* data = nullptr;  ///< for calls
  std::shared_ptr<void> hold;
  Place place{};
  std::byte* host = nullptr;  ///< where inputs are written and outputs read; null: `data` itself
  /// Copy the first `bytes` bytes from the host to where calls find them, and what calls left back to the host. The
  /// copy is complete on return. Empty where calls read and write the host's memory itself.
  std::function<void(std::size_t bytes)> give{};
  std::function<void(std::size_t bytes)> take{};
};
using RingAllocator = std::function<RingMemory(std::size_t bytes)>;

/// Ordinary memory of this process; pages come when they are touched.
RingMemory ordinary_memory(std::size_t bytes);

/// Pairs of input and output. Calls go round over these pairs, so that a batch finds every buffer as its owner left it.
/// Each pair lies on cache lines of its own. In place, both buffers are views of the larger one.
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
  /// Copy the first `slots` slots, after the host has written them and before the host reads them.
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
