#pragma once

#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// Keeps a rank that waits within its share of a CPU quota. When a control group has used up its quota, the kernel
/// stops all of its threads until the next period begins: tens of milliseconds. Short rests between turns of waiting
/// keep the group below its quota, and no rank stands still for long.
/// CPU time counts while waits follow each other closely. What a program computes between its calls does not count:
/// resting in a wait would not give that back.
/// Thread: one at a time.
class SINEW_API QuotaPace {
 public:
  /// `share_cores`: cores' worth of CPU time that the quota leaves to this rank, above 0.
  explicit QuotaPace(double share_cores) noexcept;

  /// After each turn of a wait; rests if it is time to.
  /// Cost: counts, reads two clocks in one turn of 16, and sleeps for some milliseconds when the share is used up.
  void turn() noexcept {
    if (++turns_ % kTurnsPerLook == 0) rest();
  }

  /// How long the rank shall rest, when its thread has used `cpu` of CPU time in all; 0: it may go on.
  Duration owed(Clock::time_point now, Duration cpu) noexcept;

 private:
  static constexpr std::uint32_t kTurnsPerLook = 16;

  void rest() noexcept;

  double share_;
  std::uint32_t turns_ = 0;
  Duration credit_;  ///< CPU time that may still be used; negative: was used too early
  Clock::time_point looked_{};
  Duration cpu_{};
};

}  // namespace sinew
