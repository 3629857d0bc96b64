#include <utility>

#include <sinew/collectives/execution/scratch_pool.hpp>

namespace sinew {

ScratchPool::Block ScratchPool::take(std::uint64_t bytes) {
  if (bytes == 0) return {};
  auto best = kept_.end();
  for (auto b = kept_.begin(); b != kept_.end(); ++b) {
    if (b->bytes >= bytes && (best == kept_.end() || b->bytes < best->bytes)) best = b;
  }
  if (best == kept_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  Block block = std::move(*best);
  kept_.erase(best);
  bytes_ -= block.bytes;
  return block;
}

void ScratchPool::give(Block block) noexcept {
  if (block.bytes == 0 || block.bytes > kKeptBytes) return;
  bytes_ += block.bytes;
  kept_.push_back(std::move(block));
  while (bytes_ > kKeptBytes) {
    bytes_ -= kept_.front().bytes;
    kept_.erase(kept_.begin());
  }
}

}  // namespace sinew
