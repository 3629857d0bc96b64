#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/host/shared_segment.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// Gives out GroupStates and takes them back when nobody reads them any more. A rank that ends a group writes kClosed into
/// its `done` word and retires its group state; the peers may be behind and still look at it, so the memory goes back to the
/// shared segment only when each of them has closed its own (or has even given it back, then its stamp is gone).
class GroupStates {
 public:
  explicit GroupStates(SharedSegment& segment) noexcept : segment_(segment) {}

  /// Zeroed, with slots for a group of so many ranks. Errors: Error{System} when the shared segment is full.
  GroupState* obtain(std::size_t ranks);
  /// `group state.done` says kClosed already; `readers` are the peers' `done` words.
  void retire(GroupState* group_state, std::uint64_t salt, std::vector<const Word*> readers);

 private:
  struct Retired {
    GroupState* group_state;
    std::uint64_t salt;
    std::vector<const Word*> readers;
  };

  void give_back_unread() noexcept;

  SharedSegment& segment_;
  std::vector<Retired> retired_;
};

}  // namespace sinew::shm
