#pragma once

#include <cstdint>

#include <sinew/core/transport.hpp>
#include <sinew/transports/shm/messages/connection.hpp>
#include <sinew/transports/shm/messages/frame_writer.hpp>
#include <sinew/transports/shm/messages/receiver.hpp>
#include <sinew/transports/shm/messages/sender.hpp>

namespace sinew::shm {

/// The connection to one rank of this host: a Sender and a Receiver over a pair of rings. It hands them the frames that
/// come, makes progress on both, and ends both.
class ShmEndpoint final : public Endpoint {
 public:
  ShmEndpoint(Hub& hub, const PortAddress& peer);
  ~ShmEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override {
    sender_.send(from, tag, note, done);
  }
  void recv(Sink to, Tag tag, Completion& done) override { receiver_.recv(to, tag, done); }
  bool has_unexpected(Tag tag) const noexcept override { return receiver_.has_unexpected(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& closed) override;

  int peer() const noexcept { return connection_.peer; }
  /// Makes one turn of progress on all messages. Returns how many frames were handled and parts of messages copied.
  int progress() noexcept;
  bool can_progress() noexcept;
  bool active() const noexcept;

 private:
  int handle_frames();
  void handle(const Frame& frame);
  int flush() noexcept;
  void end(const Status& reason) noexcept;
  void lose_peer() noexcept;
  void fire_closed() noexcept;

  Connection connection_;
  RingReader in_;
  FrameWriter out_;
  Sender sender_;
  Receiver receiver_;
  Completion* closed_ = nullptr;
};

}  // namespace sinew::shm
