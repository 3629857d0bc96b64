#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/socket.hpp>

namespace sinew {

/// Sends and receives messages over a non-blocking stream socket. A message is sent as a frame: its length (u32), then
/// its bytes. Bytes that the kernel does not take wait here until the owner calls flush().
/// Memory: the frames that wait, and one incoming message. Memory for that message grows only as its bytes arrive.
/// Thread: one at a time.
class SINEW_API FramedStream {
 public:
  static constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);  ///< of the length before each message
  /// Receives one whole message. It may call end(), but it must not destroy the stream.
  using Take = std::function<void(Bytes message)>;

  /// Makes the frame of the message that consists of `head` and `body`. Any number of streams may send the frame.
  static std::shared_ptr<const Bytes> frame(std::span<const std::byte> head, std::span<const std::byte> body = {});

  /// `longest`: the most bytes of an incoming message. A longer message ends the stream.
  FramedStream(Socket socket, std::size_t longest) noexcept;
  /// Changes `longest`.
  void allow(std::size_t longest) noexcept { longest_ = longest; }

  int descriptor() const noexcept { return socket_.get(); }
  Socket& socket() noexcept { return socket_; }

  /// Calls `take` for each message that has come whole.
  void read(const Take& take);
  void send(std::shared_ptr<const Bytes> frame);
  void flush();
  /// Sends the frames that wait, and then tells the other side that no more will follow. The other side is expected to
  /// close the connection.
  void finish();

  /// True if the kernel has taken all bytes of all frames.
  bool idle() const noexcept { return out_.empty() && !socket_.wants_write(); }
  /// True if finish() was called and the other side has been told.
  bool finished() const noexcept { return finished_; }
  /// The events for which the owner must watch the socket.
  EventLoop::Interest interest() const noexcept { return {.read = true, .write = !idle()}; }

  /// Ends the stream for this reason of the owner. Nothing more is sent or read.
  void end(std::string reason, int error = 0);
  bool ended() const noexcept { return ended_; }
  /// Why the stream has ended. error() is the errno, or 0 if there was none.
  const std::string& reason() const noexcept { return reason_; }
  int error() const noexcept { return error_; }
  /// True if the stream has ended because the other side announced too long a message.
  bool has_broken_protocol() const noexcept { return broken_; }

 private:
  bool fill();
  bool whole() const noexcept { return header_bytes_ == kHeaderBytes && in_.size() == length_; }

  Socket socket_;
  std::size_t longest_;
  std::uint32_t length_ = 0;      // bytes of the incoming message, as its header says
  std::size_t header_bytes_ = 0;  // bytes of length_ that have come
  Bytes in_;                      // bytes of the incoming message that have come
  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t written_ = 0;  // bytes of out_.front()
  bool finishing_ = false;
  bool finished_ = false;
  bool ended_ = false;
  bool broken_ = false;
  std::string reason_;
  int error_ = 0;
};

}  // namespace sinew
