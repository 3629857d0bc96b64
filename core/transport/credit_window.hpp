#pragma once

#include <cstddef>
#include <utility>

namespace sinew {

/// Sender's side of eager flow control: how much the peer still takes without having asked. A message that finds no
/// credit is announced instead (rendezvous), at once and in its turn: nothing waits behind it.
/// Units: bytes of payload plus kMessageCharge each, so that empty messages are bounded too.
class CreditWindow {
 public:
  static constexpr std::size_t kDefaultBytes = 256 * 1024;  ///< eager_credit_bytes per peer
  static constexpr std::size_t kMessageCharge = 64;

  explicit CreditWindow(std::size_t bytes = kDefaultBytes) noexcept : left_(bytes) {}

  static constexpr std::size_t charge_for(std::size_t bytes) noexcept { return bytes + kMessageCharge; }

  /// false: announce it.
  bool take(std::size_t message_bytes) noexcept {
    const std::size_t charge = charge_for(message_bytes);
    if (charge > left_) return false;
    left_ -= charge;
    return true;
  }
  /// What the peer's matcher returned.
  void give(std::size_t charge) noexcept { left_ += charge; }
  std::size_t left() const noexcept { return left_; }

 private:
  std::size_t left_;
};

/// Receiver's side: what it owes is returned by the quarter of a window, so that credit costs few frames of its own.
class OwedCredit {
 public:
  explicit OwedCredit(std::size_t window_bytes = CreditWindow::kDefaultBytes) noexcept : least_(window_bytes / 4) {}

  /// How much to return now; 0: not yet.
  std::size_t add(std::size_t charge) noexcept {
    owed_ += charge;
    return owed_ < least_ ? 0 : std::exchange(owed_, 0);
  }

 private:
  std::size_t least_;
  std::size_t owed_ = 0;
};

}  // namespace sinew
