#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sinew::tcp {

/// What has been written of a stream and may have to be written again, over another connection: all that the reader has
/// not said it has.
class ReplayLog {
 public:
  /// Where in the stream the next byte will be.
  std::uint64_t end() const noexcept { return begin_ + bytes_.size(); }
  /// Up to where it has ever been written.
  std::uint64_t written() const noexcept { return written_; }

  void append(const void* data, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  std::span<const std::byte> unsent() const noexcept { return std::span(bytes_).subspan(sent_); }
  void sent(std::size_t bytes) noexcept {
    sent_ += bytes;
    written_ = std::max(written_, begin_ + sent_);
  }
  /// Takes back what has never been written.
  void remove(std::uint64_t from, std::uint64_t to) {
    const auto at = [this](std::uint64_t where) {
      return bytes_.begin() + static_cast<std::ptrdiff_t>(where - begin_);
    };
    bytes_.erase(at(from), at(to));
  }

  /// The reader has `total` bytes of the stream, as it says now or said before. false: it cannot have.
  [[nodiscard]] bool heard(std::uint64_t total) {
    if (total <= begin_) return true;
    if (total > begin_ + sent_) return false;
    const auto known = static_cast<std::size_t>(total - begin_);
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(known));
    begin_ = total;
    sent_ -= known;
    return true;
  }
  /// The reader has `total` bytes and waits for the next on a new connection. false: it cannot have.
  [[nodiscard]] bool resume(std::uint64_t total) {
    if (total < begin_ || !heard(total)) return false;
    sent_ = 0;
    return true;
  }

 private:
  std::vector<std::byte> bytes_;  // from begin_ of the stream on
  std::uint64_t begin_ = 0;
  std::size_t sent_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace sinew::tcp
