#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <sinew/core/operation.hpp>
#include <sinew/transports/tcp/frame.hpp>

namespace sinew::tcp {

/// The 64 bytes of a send.
struct Send : Operation {
  enum class Phase : std::uint8_t { Eager, Announced, Streaming };

  Phase phase = Phase::Eager;
  std::uint32_t receiver = 0;  ///< the peer's number for it, once cleared
  std::uint32_t granule = 1;   ///< its frames are multiples of this, as the peer wants them
  const std::byte* from = nullptr;
  std::size_t at = 0;    ///< what frames have been made of
  std::size_t left = 0;  ///< what not
};

/// A frame's part of a message.
struct Piece {
  Completion* send = nullptr;  ///< null: taken back, its bytes belong to the user again
  std::uint32_t receiver = 0;
  const std::byte* from = nullptr;
  std::size_t at = 0;  ///< in the message
  std::size_t bytes = 0;
};

/// The cleared messages of one pair. They take turns after each frame, and every connection takes its next frame here
/// as soon as it can write one: what a rail carries follows what it can carry.
class Outgoing {
 public:
  /// Frames that shrink towards a message's end let all rails end together.
  void set_rails(std::size_t count) noexcept { rails_ = count; }

  void push(Completion& send) noexcept { turns_.push(send); }
  /// What has been lost on its way goes first.
  void push_again(const Piece& piece) { again_.push_back(piece); }
  bool empty() const noexcept { return turns_.empty() && again_.empty(); }
  /// Only where it is not empty.
  Piece next();
  /// Returns how many of its bytes no frame has been made of, or none that counts; nothing where all of it has frames.
  std::optional<std::size_t> remove(Completion& send);
  void clear() noexcept;

 private:
  std::size_t frame_bytes(const Send& s) const noexcept;

  CompletionQueue turns_;
  std::deque<Piece> again_;
  std::size_t rails_ = 1;
};

}  // namespace sinew::tcp
