#pragma once

#include <chrono>

namespace sinew {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;

/// The moment after which a wait gives up. Default-constructed: "not given", the configured timeout applies.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(Clock::time_point at) noexcept : at_(at), given_(true) {}
  static Deadline after(Duration d) noexcept { return Deadline(Clock::now() + d); }
  static Deadline never() noexcept { return Deadline(Clock::time_point::max()); }

  bool given() const noexcept { return given_; }
  bool passed() const noexcept { return given_ && at_ != Clock::time_point::max() && Clock::now() >= at_; }
  Clock::time_point at() const noexcept { return at_; }
  /// Milliseconds left for poll(2): rounded up, 0 if passed, capped at `most`.
  int left_ms(int most) const noexcept {
    if (!given_ || at_ == Clock::time_point::max()) return most;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return left <= 0 ? 0 : left < most ? static_cast<int>(left) : most;
  }
  Deadline or_after(Duration d) const noexcept { return given_ ? *this : after(d); }

 private:
  Clock::time_point at_{};
  bool given_ = false;
};

}  // namespace sinew
