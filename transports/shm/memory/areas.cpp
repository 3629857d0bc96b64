#include <algorithm>
#include <utility>

#include <sinew/transports/shm/memory/areas.hpp>

namespace sinew::shm {

Area* Areas::obtain(std::size_t ranks) {
  give_back_unread();
  // As it comes: it may have been an Area whose words a peer looks at once more.
  return reinterpret_cast<Area*>(heap_.allocate(area_bytes(ranks), page_bytes()));
}

void Areas::retire(Area* area, std::uint64_t salt, std::vector<const Word*> readers) {
  retired_.push_back({area, salt, std::move(readers)});
}

void Areas::give_back_unread() noexcept {
  std::erase_if(retired_, [this](const Retired& r) {
    const bool unread = std::ranges::all_of(r.readers, [&](const Word* done) {
      const std::uint64_t value = done->load(std::memory_order_acquire);
      return (value & ~kSequenceMask) != r.salt || (value & kSequenceMask) == kClosed;
    });
    if (unread) heap_.release(reinterpret_cast<std::byte*>(r.area));
    return unread;
  });
}

}  // namespace sinew::shm
