#include "buffer_ring.hpp"

#include <sys/mman.h>

#include <algorithm>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>

namespace sinew::tools {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

/// On lines of its own; large ones one step further, lest all of a ring fall into the same sets of a cache.
std::size_t spaced(std::size_t bytes) {
  const std::size_t lines = round_up(std::max<std::size_t>(bytes, 1), kFalseSharing);
  return lines % page_bytes() == 0 ? lines + kFalseSharing : lines;
}

}  // namespace

RingMemory ordinary_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_errno("memory for the buffers");
  return {.data = static_cast<std::byte*>(memory),
          .hold = std::shared_ptr<void>(memory, [bytes](void* m) { munmap(m, bytes); })};
}

BufferRing::BufferRing(const RankData& data, std::size_t element_bytes, bool in_place, std::size_t most_slots,
                       std::size_t most_bytes, const RingAllocator& allocate)
    : in_bytes_(data.in_elements * element_bytes), out_bytes_(data.out_elements * element_bytes) {
  if (in_place) {
    (in_bytes_ < out_bytes_ ? in_offset_ : out_offset_) = data.in_place_at * element_bytes;
    stride_ = spaced(std::max(in_bytes_, out_bytes_));
  } else {
    out_offset_ = spaced(in_bytes_);
    stride_ = out_offset_ + spaced(out_bytes_);
  }
  slots_ = std::clamp<std::size_t>(most_bytes / stride_, 1, most_slots);
  memory_ = allocate(round_up(stride_ * slots_, page_bytes()));
}

}  // namespace sinew::tools
