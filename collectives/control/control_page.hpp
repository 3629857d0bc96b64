#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/shared_slot.hpp>

namespace sinew {

/// The notices of one rank, in its own memory, for the ranks of its host. Its process writes, under a lock of its own.
/// The slots lie behind it. Nobody asks again for what was overwritten, so there is room for all that the ranks of a
/// World may say while a reader sleeps: each may propose, vote and leave, and name who was lost.
struct NoticeBoard {
  static constexpr std::uint64_t kFewestSlots = 256, kMostSlots = 1 << 18;

  static constexpr std::uint64_t slots_for(int ranks) noexcept {
    return std::clamp(std::bit_ceil(4 * static_cast<std::uint64_t>(ranks)), kFewestSlots, kMostSlots);
  }

  std::atomic<std::uint64_t> written;
  std::uint64_t slots;  ///< a power of two; set before anybody else sees it

  void post(const Notice& notice) noexcept {
    const std::uint64_t serial = written.load(std::memory_order_relaxed) + 1;
    all()[serial % slots].write(serial, notice);
    written.store(serial, std::memory_order_release);
  }
  /// Hands every notice after `seen` to `visit`; what has been overwritten meanwhile is skipped and counted.
  template <class Visit>
  std::uint64_t read(std::uint64_t& seen, Visit&& visit) const {
    std::uint64_t missed = 0;
    const std::uint64_t until = written.load(std::memory_order_acquire);
    while (seen < until) {
      Notice notice;
      ++seen;
      if (all()[seen % slots].read(seen, notice)) {
        visit(notice);
      } else {
        ++missed;
      }
    }
    return missed;
  }

 private:
  SharedSlot<Notice>* all() noexcept { return reinterpret_cast<SharedSlot<Notice>*>(this + 1); }
  const SharedSlot<Notice>* all() const noexcept { return reinterpret_cast<const SharedSlot<Notice>*>(this + 1); }
};

/// What a rank shows the others of its host beside its records: of zeros, but for the number of slots.
struct ControlPage {
  std::atomic<std::uint32_t> left;  ///< 1: ended its World in order
  NoticeBoard board;                ///< last: its slots follow

  static constexpr std::size_t bytes(std::uint64_t slots) noexcept;
};

constexpr std::size_t ControlPage::bytes(std::uint64_t slots) noexcept {
  static_assert(sizeof(ControlPage) == offsetof(ControlPage, board) + sizeof(NoticeBoard));
  return sizeof(ControlPage) + slots * sizeof(SharedSlot<Notice>);
}

}  // namespace sinew
