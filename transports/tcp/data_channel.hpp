#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <sinew/core/matcher.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/transports/tcp/control_channel.hpp>
#include <sinew/transports/tcp/frame.hpp>
#include <sinew/transports/tcp/outgoing.hpp>

namespace sinew::tcp {

/// A granted message on its way in, over any of the pair's data connections.
struct Incoming {
  Completion* receive = nullptr;  ///< null: cancelled here, its bytes are read and dropped
  std::byte* into = nullptr;      ///< its first byte's place; null: a reduction, its bytes are delivered
  std::uint64_t bytes = 0;        ///< of the message
  std::uint64_t left = 0;         ///< to come
  std::uint32_t sender = 0;       ///< the sender's number
  bool begun = false;
  bool aborted = false;  ///< some will not come
};

class DataEvents {
 public:
  /// Of a pair with one rail: the last byte of the message is the kernel's.
  virtual void data_written(Completion& send) = 0;
  /// nullptr: no such number.
  virtual Incoming* incoming(std::uint32_t number) = 0;
  /// Bytes from `at` of the message on lie at `data`, or (null) in their place. `in.left` has counted them.
  virtual void arrived(Incoming& in, std::size_t at, const std::byte* data, std::size_t bytes) = 0;
  /// No more bytes of it will come.
  virtual void ended(std::uint32_t number) = 0;

 protected:
  ~DataEvents() = default;
};

/// What has come over a connection: whole frames, and bytes of one more.
struct Received {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
};

/// The payload of granted messages of one pair over one socket, straight between the socket and the user's buffers:
/// frames as Outgoing deals them. Where the pair has several rails it remembers what it has sent until the message has
/// arrived.
class DataChannel {
 public:
  DataChannel(DataEvents& events, Outgoing& outgoing, bool remembers) noexcept
      : events_(events), outgoing_(outgoing), remembers_(remembers) {}

  void attach(Socket* socket) noexcept {
    socket_ = socket;
    leaving_ = nullptr;
  }
  bool waiting() const noexcept {
    return active_ || !outgoing_.empty() || (socket_ != nullptr && socket_->wants_write());
  }
  bool has_written() const noexcept { return frames_out_ != 0; }
  /// Writes on at a frame, or the next; true: it is written, and another may be.
  bool write_frame();
  /// Reads what is there, within a budget; reductions go through `scratch`.
  ChannelState read(std::span<std::byte> scratch);
  /// Why it has Ended; 0: the peer has closed it.
  int error() const noexcept { return error_; }

  /// From the return the buffer of this send is not touched.
  void let_go(const Completion& send);
  /// The message with this number at the receiver has arrived.
  void forget(std::uint32_t receiver);
  /// Neither reads nor writes any more. What came is counted without the rest of an element, which must come again.
  Received stop();
  /// What was handed to this connection and has not come; it is not remembered from here on.
  std::vector<Piece> take_missing(const Received& there);

 private:
  struct Sent {
    std::uint64_t number;
    Piece piece;
  };

  void begin_frame();
  ChannelState ends(int error) noexcept;
  bool header_read();
  void payload_read(std::size_t bytes, std::span<std::byte> scratch);

  DataEvents& events_;
  Outgoing& outgoing_;
  const bool remembers_;
  Socket* socket_ = nullptr;
  int error_ = 0;

  Completion* leaving_ = nullptr;  // a message that is written, and of which the socket has something still
  bool active_ = false;            // a frame is being written
  Piece piece_;
  FrameHeader out_header_{};
  std::size_t out_sent_ = 0;     // of header and payload
  std::vector<std::byte> rest_;  // the payload, once its message was taken back
  std::uint64_t frames_out_ = 0;
  std::deque<Sent> sent_;

  FrameHeader header_{};
  std::size_t header_have_ = 0;
  std::uint32_t number_ = 0;      // the message whose payload is being read
  std::size_t at_ = 0;            // where in it
  std::size_t payload_left_ = 0;  // of its frame
  std::vector<std::byte> carry_;  // of a reduction: the beginning of an element
  std::uint64_t frames_in_ = 0;
};

}  // namespace sinew::tcp
