#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/core/host/host_heap.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

namespace sinew::shm {

/// Gives out Areas and takes them back when nobody reads them any more. A rank that ends a group writes kClosed into
/// its `done` word and retires its area; the peers may be behind and still look at it, so the memory goes back to the
/// heap only when each of them has closed its own (or has even given it back, then its stamp is gone).
class Areas {
 public:
  explicit Areas(HostHeap& heap) noexcept : heap_(heap) {}

  /// Zeroed, with slots for a group of so many ranks. Errors: Error{System} when the heap is full.
  Area* obtain(std::size_t ranks);
  /// `area.done` says kClosed already; `readers` are the peers' `done` words.
  void retire(Area* area, std::uint64_t salt, std::vector<const Word*> readers);

 private:
  struct Retired {
    Area* area;
    std::uint64_t salt;
    std::vector<const Word*> readers;
  };

  void give_back_unread() noexcept;

  HostHeap& heap_;
  std::vector<Retired> retired_;
};

}  // namespace sinew::shm
