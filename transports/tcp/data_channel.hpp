#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sinew/core/matcher.hpp>
#include <sinew/core/operation.hpp>
#include <sinew/transports/tcp/control_channel.hpp>
#include <sinew/transports/tcp/frame.hpp>

namespace sinew::tcp {

/// The 64 bytes of a send.
struct Send : Operation {
  enum class Phase : std::uint8_t { Eager, Announced, Streaming };

  Phase phase = Phase::Eager;
  std::uint32_t receiver = 0;  ///< the peer's number for it, once cleared
  const std::byte* from = nullptr;
  std::size_t left = 0;
};

/// A granted message on its way in.
struct Incoming {
  Completion* receive = nullptr;  ///< null: cancelled here, its bytes are read and dropped
  std::uint64_t left = 0;         ///< bytes to come
  std::uint32_t sender = 0;       ///< the sender's number
  bool begun = false;
  std::vector<std::byte> carry;  ///< of a reduction: the beginning of an element
};

class DataEvents {
 public:
  virtual void data_written(Completion& send) = 0;
  /// nullptr: no such number.
  virtual Incoming* incoming(std::uint32_t number) = 0;
  /// The next bytes of it lie at `data`, or (null) where Matcher::place said. `in.left` counts down behind this.
  virtual void arrived(Incoming& in, const std::byte* data, std::size_t bytes) = 0;
  /// All its bytes have come, or (aborted) no more will.
  virtual void ended(std::uint32_t number, bool aborted) = 0;

 protected:
  ~DataEvents() = default;
};

/// The payload of granted messages of one pair over one socket: frames of at most kDataFrameBytes that take turns,
/// straight between the socket and the user's buffers.
class DataChannel {
 public:
  explicit DataChannel(DataEvents& events) noexcept : events_(events) {}

  void attach(int socket) noexcept { socket_ = socket; }
  template <class Visit>
  void detach(Visit visit) {
    socket_ = -1;
    if (current_.send != nullptr) visit(*current_.send);
    current_ = {};
    while (Completion* c = turns_.pop()) visit(*c);
    aborts_.clear();
  }

  void push(Completion& send) noexcept { turns_.push(send); }
  bool waiting() const noexcept { return current_.active || !turns_.empty() || !aborts_.empty(); }
  ChannelState write();
  /// Reads what is there, within a budget; reductions go through `scratch`.
  ChannelState read(std::span<std::byte> scratch);

  /// Stops a send; from the return its buffer is not touched. true: the peer's receive ends Cancelled. false: its last
  /// byte is on the way, the message is written.
  bool take_back(Completion& send);

 private:
  struct Out {
    bool active = false;
    Completion* send = nullptr;  // null: aborted, the frame is finished from rest_
    FrameHeader header{};
    const std::byte* payload = nullptr;
    std::size_t sent = 0;  // of header and payload
  };

  bool next_frame();
  void frame_written();
  bool header_read();
  void payload_read(std::size_t bytes, std::span<std::byte> scratch);

  DataEvents& events_;
  int socket_ = -1;

  CompletionQueue turns_;
  std::vector<std::uint32_t> aborts_;
  Out current_;
  std::vector<std::byte> rest_;

  FrameHeader header_{};
  std::size_t header_have_ = 0;
  std::uint32_t number_ = 0;      // the message whose payload is being read
  std::size_t payload_left_ = 0;  // of its frame
};

}  // namespace sinew::tcp
