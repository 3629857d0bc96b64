#include <algorithm>
#include <utility>

#include <sinew/transports/shm/memory/group_states.hpp>

namespace sinew::shm {

GroupState* GroupStates::obtain(std::size_t ranks) {
  give_back_unread();
  // No constructor writes here: the memory may have held a GroupState whose words a late peer still reads.
  return reinterpret_cast<GroupState*>(segment_.allocate(group_state_bytes(ranks), page_bytes()));
}

void GroupStates::retire(GroupState* group_state, std::uint64_t salt, std::vector<const Word*> readers) {
  retired_.push_back({group_state, salt, std::move(readers)});
}

void GroupStates::give_back_unread() noexcept {
  std::erase_if(retired_, [this](const Retired& r) {
    const bool unread = std::ranges::all_of(r.readers, [&](const Word* done) {
      const std::uint64_t value = done->load(std::memory_order_acquire);
      return (value & ~kSequenceMask) != r.salt || (value & kSequenceMask) == kClosed;
    });
    if (unread) segment_.release(reinterpret_cast<std::byte*>(r.group_state));
    return unread;
  });
}

}  // namespace sinew::shm
