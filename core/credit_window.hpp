#pragma once

#include <cstddef>

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

}  // namespace sinew
