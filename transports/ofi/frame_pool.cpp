#include <algorithm>

#include <sinew/transports/ofi/frame_pool.hpp>

namespace sinew::ofi {

Frame& FramePool::take() {
  if (free_.empty()) grow();
  Frame& frame = *free_.back();
  free_.pop_back();
  return frame;
}

void FramePool::grow() {
  const std::size_t count = std::max<std::size_t>(kSlabBytes / frame_bytes_, 1);
  Slab slab;
  slab.memory.reset(new std::byte[count * frame_bytes_]);
  void* descriptor = nullptr;
  if (rail_.registers(MemoryKind::Host)) {
    slab.registration = rail_.register_memory({slab.memory.get(), count * frame_bytes_}, FI_SEND | FI_RECV);
    descriptor = fi_mr_desc(slab.registration.get());
  }
  for (std::size_t i = 0; i < count; ++i) {
    free_.push_back(&frames_.emplace_back(completed_, slab.memory.get() + i * frame_bytes_, descriptor, owner_));
  }
  slabs_.push_back(std::move(slab));
}

}  // namespace sinew::ofi
