#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/transports/shm/memory/layout.hpp>

/// A ring of cache lines from one rank to another, in the sender's shared segment. A frame is a line with a header, and
/// right behind it the lines of its payload. The receiver looks at the line where the next frame will begin. A frame
/// has come when the stamp in that line is the ring's random salt plus the frame's position since the beginning. Older
/// bytes in that line equal the stamp with a probability of 2^-64.
namespace sinew::shm {

inline constexpr std::size_t kFewestRingLines = 2048;
inline constexpr std::size_t kMostRingLines = 16384;
/// What one rank's rings to all others of its host take together, where they are longer than the shortest.
inline constexpr std::size_t kRingsBytes = 1 << 20;
inline constexpr std::size_t kFrameInlineBytes = 24;
/// Longer messages are sent in fragments: one rank fills the next frame while the other one empties the frame before.
/// Short fragments let the receiver begin early. Long ones cost less for each byte.
inline constexpr std::size_t kFragmentBytes = 4 << 10;  // not a page
inline constexpr std::size_t kLongFragmentBytes = 8 << 10;
/// The number of short fragments at the beginning of a message. A quarter of the ring always has room for a frame, see
/// RingReader::release.
inline constexpr std::size_t kShortFragments = 4;
constexpr std::size_t fragment_bytes(std::uint64_t sent) noexcept {
  return sent < kShortFragments * kFragmentBytes ? kFragmentBytes : kLongFragmentBytes;
}
/// The most lines that the sender takes back from the receiver's core ahead of time.
inline constexpr std::size_t kMostOwnedLines = 1 + kLongFragmentBytes / kCacheLine;

enum class FrameKind : std::uint8_t {
  Skip,      ///< nothing up to the end of the ring
  Eager,     ///< a message
  First,     ///< the first fragment of a message of `id` bytes; frames of kind Next bring the others
  Next,      ///< the next fragment of that message
  Request,   ///< message `id` waits in the sender's memory
  Grant,     ///< send the bytes of message `id` as Data for `receive`
  Data,      ///< the next bytes for receive `id`
  Gone,      ///< there will be none for receive `id`: its message was taken back
  Taken,     ///< message `id` has been read
  Refuse,    ///< nobody will take message `id`
  Withdraw,  ///< message `id` was taken back
};

struct alignas(kCacheLine) Frame {
  Word stamp;
  FrameKind kind;
  Access access;        ///< Request: how to reach `place`
  std::uint16_t lines;  ///< of the frame, its payload included
  std::uint32_t id;
  std::uint64_t tag;
  std::uint64_t note;
  std::uint64_t bytes;
  struct More {
    std::uint64_t place;    ///< Request: offset or address of the message
    std::uint32_t ticket;   ///< Request: index in Port::tickets of the sender
    std::uint32_t receive;  ///< Grant: number of the receive
    Code why;               ///< Refuse
  };
  union {
    std::array<std::byte, kFrameInlineBytes> data;  ///< a payload that fits
    More more;
  };

  static std::uint16_t lines_for(std::size_t payload) noexcept {
    return static_cast<std::uint16_t>(payload <= kFrameInlineBytes ? 1 : 1 + (payload + kCacheLine - 1) / kCacheLine);
  }
  const std::byte* payload() const noexcept {
    return bytes <= kFrameInlineBytes ? data.data() : reinterpret_cast<const std::byte*>(this + 1);
  }
  void set_payload(const std::byte* from, std::size_t length) noexcept {
    if (length > 0) std::memcpy(length <= kFrameInlineBytes ? data.data() : lines_behind(), from, length);
    bytes = length;
  }
  std::byte* lines_behind() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(Frame) == kCacheLine);

/// Of each ring on a host with so many ranks, a power of two. The longer a ring, the longer ago the other core has read
/// the line that is written next: where two cores share a cache that keeps it from both being slow.
constexpr std::size_t ring_lines(std::size_t ranks) noexcept {
  const std::size_t peers = ranks > 1 ? ranks - 1 : 1;
  return std::bit_floor(std::clamp(kRingsBytes / sizeof(Frame) / peers, kFewestRingLines, kMostRingLines));
}

/// The sender's end.
class RingWriter {
 public:
  /// `lines`: a power of two of them.
  RingWriter(std::span<Frame> lines, std::uint64_t salt, const Word& consumed) noexcept
      : lines_(lines), salt_(salt), consumed_word_(consumed) {}

  /// Room for a frame; nullptr: not now. Nothing is sent before publish().
  Frame* claim(std::uint16_t lines) noexcept {
    const std::uint64_t at = place(position_);
    const std::uint64_t skipped = at + lines > lines_.size() ? lines_.size() - at : 0;
    if (!has_room(skipped + lines)) return nullptr;
    if (skipped > 0) {
      Frame& skip = lines_[at];
      skip.kind = FrameKind::Skip;
      publish(skip, static_cast<std::uint16_t>(skipped));
    }
    return &lines_[place(position_)];
  }
  /// `demoted`: pushes the lines to the cache that cores share (demote_lines).
  void publish(Frame& frame, std::uint16_t lines, bool demoted = false) noexcept {
    frame.lines = lines;
    if (demoted) demote_lines(&frame + 1, (lines - std::size_t{1}) * kCacheLine);
    frame.stamp.store(salt_ + position_ + 1, std::memory_order_release);
    if (demoted) demote_lines(&frame, kCacheLine);
    position_ += lines;
    own_ahead(lines);
  }
  bool has_room(std::uint64_t lines) noexcept {
    if (position_ + lines - consumed_ <= lines_.size()) return true;
    consumed_ = consumed_word_.load(std::memory_order_acquire);
    return position_ + lines - consumed_ <= lines_.size();
  }
  std::uint64_t position() const noexcept { return position_; }

 private:
  static constexpr std::size_t kOwnedAhead = 8;

  std::uint64_t place(std::uint64_t position) const noexcept { return position & (lines_.size() - 1); }
  /// The receiver's core still has the lines that are written next. Stores become visible in their order, so each line
  /// would be taken from it after the one before; asked for some frames ahead, they are taken at the same time.
  void own_ahead(std::uint16_t lines) noexcept {
    if (lines > kMostOwnedLines) return;  // a frame of kind Skip
    for (std::size_t i = 0; i < lines; ++i) prefetch_line_to_write(&lines_[place(position_ + kOwnedAhead + i)]);
  }

  std::span<Frame> lines_;
  std::uint64_t salt_;
  const Word& consumed_word_;
  std::uint64_t position_ = 0;
  std::uint64_t consumed_ = 0;
};

/// The receiver's end.
class RingReader {
 public:
  /// `lines`: a power of two of them.
  RingReader(std::span<const Frame> lines, std::uint64_t salt, Word& consumed) noexcept
      : lines_(lines), salt_(salt), consumed_word_(consumed) {}

  /// nullptr: nothing there.
  const Frame* next() const noexcept {
    const Frame& f = lines_[place(position_)];
    return f.stamp.load(std::memory_order_acquire) == salt_ + position_ + 1 ? &f : nullptr;
  }
  /// To be called as soon as next() has found a frame. The lines of a short frame come while it is matched, and the
  /// line of the frame behind while its bytes are copied. This does not help a long frame, whose lines are read in
  /// order.
  void fetch_ahead(const Frame& found) const noexcept {
    const Frame* const behind = &lines_[place(position_ + found.lines)];
    for (std::size_t i = 1; i < found.lines && found.lines <= kLinesAhead; ++i) prefetch_line(&found + i);
    prefetch_line(behind);
  }
  /// The frame is done with. The sender is told in quarters of the ring; true: now, it may wait for that.
  bool release(std::uint16_t lines) noexcept {
    position_ += lines;
    if (position_ - told_ < lines_.size() / 4) return false;
    told_ = position_;
    consumed_word_.store(told_, std::memory_order_release);
    return true;
  }
  std::uint64_t position() const noexcept { return position_; }

 private:
  static constexpr std::size_t kLinesAhead = 12;  // as many as a core fetches at once

  std::uint64_t place(std::uint64_t position) const noexcept { return position & (lines_.size() - 1); }

  std::span<const Frame> lines_;
  std::uint64_t salt_;
  Word& consumed_word_;
  std::uint64_t position_ = 0;
  std::uint64_t told_ = 0;
};

}  // namespace sinew::shm
