#pragma once

#include <cstdint>
#include <deque>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/shm/messages/connection.hpp>

namespace sinew::shm {

/// A frame without bytes of a message.
struct Control {
  FrameKind kind;
  std::uint32_t id = 0;
  std::uint32_t receive = 0;
  Code why = Code::Ok;
  std::uint64_t note = 0;
};

/// Writes the frames to one peer. Controls wait here while the ring is full.
class FrameWriter {
 public:
  explicit FrameWriter(Connection& connection)
      : connection_(connection),
        ring_(Port::ring_of(connection.mine, connection.hub.host.ranks().size()), connection.hub.salt,
              connection.theirs.consumed.value),
        waker_(connection.hub.host.waker_of(connection.peer)) {}

  /// Room for a frame; nullptr: not now. Nothing is sent before publish().
  Frame* claim(std::uint16_t lines) noexcept { return ring_.claim(lines); }
  void publish(Frame& frame, std::uint16_t lines) noexcept {
    const std::size_t demoted = connection_.hub.demoted_lines.load(std::memory_order_relaxed);
    ring_.publish(frame, lines, lines <= demoted && !ahead_);
    ahead_ = true;
    waker_.notify();
  }
  /// Called when a frame of the peer has come. Only the next frame is pushed to the shared cache then: the peer may
  /// wait for it. The peer does not wait for the frames behind it, and pushing them would cost this rank time.
  void heard() noexcept { ahead_ = false; }
  bool has_room(std::uint64_t lines) noexcept { return ring_.has_room(lines); }
  std::uint64_t position() const noexcept { return ring_.position(); }
  /// Wakes the peer.
  void notify() noexcept { waker_.notify(); }

  /// Sent by flush().
  void post(const Control& control) { controls_.push_back(control); }
  /// Sends controls. false: some of them still wait.
  bool flush() noexcept;
  bool has_controls() const noexcept { return !controls_.empty(); }
  void drop_controls() noexcept { controls_.clear(); }

 private:
  const Connection& connection_;
  RingWriter ring_;
  HostWaker waker_;
  bool ahead_ = false;
  std::deque<Control> controls_;
};

}  // namespace sinew::shm
