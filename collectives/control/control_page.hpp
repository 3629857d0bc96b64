#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <sinew/collectives/control/notice.hpp>
#include <sinew/collectives/control/shared_slot.hpp>

namespace sinew {

/// The notices of one rank, in its own memory, for the ranks of its host. Its process writes, under a lock of its own.
struct NoticeBoard {
  static constexpr std::uint64_t kSlots = 256;

  std::atomic<std::uint64_t> written;
  std::array<SharedSlot<Notice>, kSlots> slots;

  void post(const Notice& notice) noexcept {
    const std::uint64_t serial = written.load(std::memory_order_relaxed) + 1;
    slots[serial % kSlots].write(serial, notice);
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
      if (slots[seen % kSlots].read(seen, notice)) {
        visit(notice);
      } else {
        ++missed;
      }
    }
    return missed;
  }
};

/// What a rank shows the others of its host beside its records.
struct ControlPage {
  std::atomic<std::uint32_t> left;  ///< 1: ended its World in order
  NoticeBoard board;
};

}  // namespace sinew
