#pragma once

#include <cstddef>
#include <utility>

namespace sinew {

/// The credit that a sender has at one peer: how many bytes of eager messages it may still send. A message that finds
/// too little credit is sent by rendezvous instead, at once, so no later message waits for it.
/// Units: bytes. A message costs its payload and kMessageCharge, which bounds the number of empty messages.
class CreditWindow {
 public:
  static constexpr std::size_t kDefaultBytes = 256 * 1024;  ///< eager_credit_bytes per peer
  static constexpr std::size_t kMessageCharge = 64;

  explicit CreditWindow(std::size_t bytes = kDefaultBytes) noexcept : left_(bytes) {}

  static constexpr std::size_t charge_for(std::size_t bytes) noexcept { return bytes + kMessageCharge; }

  /// Takes credit for an eager message. Returns false if there is too little: send the message by rendezvous.
  bool take(std::size_t message_bytes) noexcept {
    const std::size_t charge = charge_for(message_bytes);
    if (charge > left_) return false;
    left_ -= charge;
    return true;
  }
  /// Adds the credit that the peer's matcher has returned.
  void give(std::size_t charge) noexcept { left_ += charge; }
  std::size_t left() const noexcept { return left_; }

 private:
  std::size_t left_;
};

/// The credit that a receiver owes its peer. It is returned in quarters of the window, so that few frames carry nothing
/// but credit.
class OwedCredit {
 public:
  explicit OwedCredit(std::size_t window_bytes = CreditWindow::kDefaultBytes) noexcept : least_(window_bytes / 4) {}

  /// Adds the charge of a message. Returns the credit to send back now, or 0 if it is too early.
  std::size_t add(std::size_t charge) noexcept {
    owed_ += charge;
    return owed_ < least_ ? 0 : std::exchange(owed_, 0);
  }

 private:
  std::size_t least_;
  std::size_t owed_ = 0;
};

}  // namespace sinew
