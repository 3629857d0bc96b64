#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/transports/tcp/frame.hpp>

namespace sinew::tcp {

/// What a channel tells its endpoint. None of it may end the channel while it is at work.
class ControlEvents {
 public:
  /// `payload` lies in the channel's memory until the return.
  virtual void control_frame(const FrameHeader& header, const std::byte* payload) = 0;
  /// The last byte of an eager message is the kernel's.
  virtual void eager_written(Completion& send) = 0;

 protected:
  ~ControlEvents() = default;
};

enum class ChannelState : std::uint8_t { Open, Ended };

/// Control and eager frames of one pair over one socket, in order. Frames wait here until there is a connection, or
/// room in it; one system call carries as many as are waiting.
class ControlChannel {
 public:
  explicit ControlChannel(ControlEvents& events) noexcept : events_(events) {}

  void attach(int socket) noexcept { socket_ = socket; }
  /// Frames nobody will send now are forgotten; visit(completion) is called for the eager messages among them.
  template <class Visit>
  void detach(Visit visit) {
    socket_ = -1;
    for (std::size_t i = head_; i < frames_.size(); ++i) {
      if (frames_[i].done != nullptr) visit(*frames_[i].done);
    }
    frames_.clear();
    head_ = head_sent_ = 0;
  }

  /// `done`: the eager message whose payload this is.
  void push(const FrameHeader& header, ConstBuffer payload = {}, Completion* done = nullptr);
  bool waiting() const noexcept { return head_ < frames_.size(); }
  ChannelState write();
  /// Reads what is there through `scratch`, which must hold the longest frame.
  ChannelState read(std::span<std::byte> scratch);

  /// true: no byte of it had left and none will. false: some had; the rest is copied, and the message is written.
  bool take_back(Completion& eager);

 private:
  struct Frame {
    FrameHeader header;
    ConstBuffer payload;
    Completion* done = nullptr;

    std::size_t bytes() const noexcept { return sizeof header + payload.bytes; }
  };

  void written(std::size_t bytes);
  /// Bytes of whole frames at the front of `data`; 0 beyond any limit where a frame is not of this protocol.
  bool parse(std::span<const std::byte> data, std::size_t longest, std::size_t& used);

  ControlEvents& events_;
  int socket_ = -1;
  std::vector<Frame> frames_;  // from head_ on: what is not written
  std::size_t head_ = 0;
  std::size_t head_sent_ = 0;          // bytes of the frame at head_ that are written
  std::vector<std::byte> rest_;        // of a frame whose message was taken back half written
  std::vector<std::byte> unfinished_;  // the beginning of a frame that has not come in full
};

}  // namespace sinew::tcp
