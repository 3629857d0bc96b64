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

/// Messages in both directions over a stream socket that does not block. A message is sent as a frame: its length
/// (u32), then its bytes. What does not fit into the kernel waits here, and goes when the owner calls flush().
/// Memory: of one incoming message at a time, which grows as its bytes arrive, not by what its length promises.
/// Thread: one at a time.
class SINEW_API FramedStream {
 public:
  static constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);  ///< before each message
  /// Gets one whole message. It may end the stream, by end(); it must not destroy it.
  using Take = std::function<void(Bytes message)>;

  /// A message with its length before it, to be sent by any number of streams.
  static std::shared_ptr<const Bytes> frame(std::span<const std::byte> head, std::span<const std::byte> body = {});

  /// `longest`: bytes of an incoming message; a longer one ends the stream.
  FramedStream(Socket socket, std::size_t longest) noexcept;
  /// Changes `longest`.
  void allow(std::size_t longest) noexcept { longest_ = longest; }

  int descriptor() const noexcept { return socket_.get(); }
  Socket& socket() noexcept { return socket_; }

  /// Calls `take` for each message that has come whole.
  void read(const Take& take);
  void send(std::shared_ptr<const Bytes> frame);
  void flush();
  /// Sends nothing after what waits. The other side is told so then, and is expected to close the connection.
  void finish();

  /// Everything that was sent has left this process.
  bool idle() const noexcept { return out_.empty() && !socket_.wants_write(); }
  /// finish() was called, and the other side has been told.
  bool finished() const noexcept { return finished_; }
  /// What its socket is to be watched for.
  EventLoop::Interest interest() const noexcept { return {.read = true, .write = !idle()}; }

  /// Ends it for a reason of the owner's. Nothing more is sent or read.
  void end(std::string reason, int error = 0);
  bool ended() const noexcept { return ended_; }
  /// Why it has ended, and the errno, or 0.
  const std::string& reason() const noexcept { return reason_; }
  int error() const noexcept { return error_; }
  /// It has ended because the other side announced too long a message.
  bool has_broken_protocol() const noexcept { return broken_; }

 private:
  bool fill();
  bool whole() const noexcept { return header_bytes_ == kHeaderBytes && in_.size() == length_; }

  Socket socket_;
  std::size_t longest_;
  std::uint32_t length_ = 0;      // of the message that comes now
  std::size_t header_bytes_ = 0;  // of length_ that have come
  Bytes in_;                      // of the message
  std::deque<std::shared_ptr<const Bytes>> out_;
  std::size_t written_ = 0;  // of out_.front()
  bool finishing_ = false;
  bool finished_ = false;
  bool ended_ = false;
  bool broken_ = false;
  std::string reason_;
  int error_ = 0;
};

}  // namespace sinew
