#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/host/shared_segment.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// Allocates GroupStates and frees them when no peer reads them any more. A rank that ends a group writes kClosed into
/// its `done` word and retires its group state. Late peers may still read that state. So its memory is freed only when
/// each peer has closed its own state. If a peer has freed its state, the `done` word there has another stamp, and the
/// peer counts as closed.
class GroupStates {
 public:
  explicit GroupStates(SharedSegment& segment) noexcept : segment_(segment) {}

  /// Allocates a zeroed state for a group of `ranks` ranks.
  /// Errors: Error{System} if the shared segment is full.
  GroupState* obtain(std::size_t ranks);
  /// Frees a state later. Precondition: its `done` word is kClosed. `readers` are the peers' `done` words.
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
