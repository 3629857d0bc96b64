#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <sinew/core/buffer.hpp>

#include "bench_case.hpp"

namespace sinew::tools {

/// Where a ring's memory is from: so many bytes, aligned to a page, alive as long as the pointer.
struct RingMemory {
  std::byte* data = nullptr;
  std::shared_ptr<void> hold;
};
using RingAllocator = std::function<RingMemory(std::size_t bytes)>;

/// Ordinary memory of this process; pages come when they are touched.
RingMemory ordinary_memory(std::size_t bytes);

/// Pairs of input and output that calls go round over, each on cache lines of its own, so that a batch finds every
/// buffer as its owner left it. In place, both are views of the larger one.
class BufferRing {
 public:
  /// Slots are as many as fit `most_bytes`, at least 1, at most `most_slots`.
  BufferRing(const RankData& data, std::size_t element_bytes, bool in_place, std::size_t most_slots,
             std::size_t most_bytes, const RingAllocator& allocate);

  std::size_t slots() const noexcept { return slots_; }
  Buffer in(std::size_t slot) const noexcept { return view(slot % slots_, in_offset_, in_bytes_); }
  Buffer out(std::size_t slot) const noexcept { return view(slot % slots_, out_offset_, out_bytes_); }

 private:
  Buffer view(std::size_t slot, std::size_t offset, std::size_t bytes) const noexcept {
    return {memory_.data + slot * stride_ + offset, bytes};
  }

  std::size_t in_bytes_;
  std::size_t out_bytes_;
  std::size_t in_offset_ = 0;
  std::size_t out_offset_ = 0;
  std::size_t stride_ = 0;
  std::size_t slots_ = 1;
  RingMemory memory_;
};

}  // namespace sinew::tools
