#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/transports/tcp/frame.hpp>
#include <sinew/transports/tcp/replay_log.hpp>

namespace sinew::tcp {

/// What a channel tells its endpoint. None of it may end the channel while it is at work.
class ControlEvents {
 public:
  /// `payload` lies in the channel's memory until the return.
  virtual void control_frame(const FrameHeader& header, const std::byte* payload) = 0;
  /// The last byte of an eager message is the kernel's: it goes on its way whatever becomes of this process.
  virtual void eager_written(Completion& send) = 0;

 protected:
  ~ControlEvents() = default;
};

enum class ChannelState : std::uint8_t { Open, Ended };

/// Control and eager frames of one pair over one socket, in order. Frames wait here until there is a connection, or
/// room in it; one system call carries as many as are waiting. Of a pair with several rails the stream goes on over
/// another connection where one ends: frames are copied, and kept until the peer has said that it has them. On each
/// connection both sides say first how much they have: on the first, too, as the other may have had one before. Whoever
/// has never written does not wait for that, as the peer may answer late.
class ControlChannel {
 public:
  explicit ControlChannel(ControlEvents& events) noexcept : events_(events) {}

  /// Before anything else, on both sides.
  void outlive_connections() { log_.emplace(); }
  void attach(Socket* socket) noexcept;
  /// Of one that outlives its connections: this one has ended.
  void pause() noexcept { socket_ = nullptr; }
  /// There is a connection, and the peer has said where it goes on.
  bool runs() const noexcept { return socket_ != nullptr && (!log_ || resumed_); }
  /// Frames nobody will send now are forgotten; visit(completion) is called for the eager messages among them.
  template <class Visit>
  void detach(Visit visit) {
    socket_ = nullptr;
    for (Completion* c : leaving_) visit(*c);
    leaving_.clear();
    for (const Logged& l : logged_) visit(*l.done);
    logged_.clear();
    for (std::size_t i = head_; i < frames_.size(); ++i) {
      if (frames_[i].done != nullptr) visit(*frames_[i].done);
    }
    frames_.clear();
    head_ = head_sent_ = 0;
  }

  /// `done`: the eager message whose payload this is.
  void push(const FrameHeader& header, ConstBuffer payload = {}, Completion* done = nullptr);
  bool waiting() const noexcept { return (socket_ != nullptr && socket_->wants_write()) || has_frames(); }
  ChannelState write();
  /// Reads what is there through `scratch`, which must hold the longest frame.
  ChannelState read(std::span<std::byte> scratch);
  /// Why it has Ended; 0: the peer has closed it.
  int error() const noexcept { return error_; }

  /// true: no byte of it had left and none will. false: some had; the rest is copied, and the message is written.
  bool take_back(Completion& eager);

 private:
  struct Frame {
    FrameHeader header;
    ConstBuffer payload;
    Completion* done = nullptr;

    std::size_t bytes() const noexcept { return sizeof header + payload.bytes; }
  };

  /// An eager message in the log.
  struct Logged {
    std::uint64_t from, to;
    Completion* done;
  };

  bool has_frames() const noexcept { return log_ ? !to_write().empty() : head_ < frames_.size(); }
  void written(std::size_t bytes);
  void tell_what_left();
  bool take_back_logged(Completion& eager);
  ChannelState write_log();
  std::span<const std::byte> to_write() const noexcept;
  ChannelState read_greeting();
  ChannelState ends(int error) noexcept;
  /// Bytes of whole frames at the front of `data`; 0 beyond any limit where a frame is not of this protocol.
  bool parse(std::span<const std::byte> data, std::size_t longest, std::size_t& used);

  ControlEvents& events_;
  Socket* socket_ = nullptr;
  int error_ = 0;
  std::vector<Frame> frames_;  // from head_ on: what is not written
  std::size_t head_ = 0;
  std::size_t head_sent_ = 0;          // bytes of the frame at head_ that are written
  std::vector<Completion*> leaving_;   // messages that are written, and of which the socket has something still
  std::vector<std::byte> rest_;        // of a frame whose message was taken back half written
  std::vector<std::byte> unfinished_;  // the beginning of a frame that has not come in full

  std::optional<ReplayLog> log_;  // of a stream that outlives its connections, instead of frames_
  std::deque<Logged> logged_;     // not written
  bool resumed_ = false;
  bool at_beginning_ = false;      // nothing was written over a connection before this one
  FrameHeader greeting_{};         // ours
  std::size_t greeting_sent_ = 0;  // bytes
  FrameHeader their_greeting_{};
  std::size_t their_greeting_have_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;  // of received_
};

}  // namespace sinew::tcp
