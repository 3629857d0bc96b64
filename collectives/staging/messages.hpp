#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <sinew/core/device.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/progress_source.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// The point to point messages of one communicator on device memory, over transports that know only the host's: each
/// goes through pinned memory of its length. Sends leave in the order in which they were made.
/// Thread: of the World's engine. Cost: pinned memory of the messages in flight at most, kept for later ones.
class StagedMessages : public ProgressSource {
 public:
  StagedMessages(DeviceRuntime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~StagedMessages() override;

  /// `post` hands the pinned copy to the transport. `done` fires from this source's progress().
  void send(ConstBuffer from, StreamRef after, std::function<Endpoint&(Buffer pinned, Completion& sent)> post,
            Completion& done);
  void recv(Buffer to, StreamRef after, const std::function<Endpoint&(Buffer pinned, Completion& received)>& post,
            Completion& done);
  /// Runs `launch` when all sends made before have left.
  void queue(std::function<void()> launch);
  /// A send of host memory must queue.
  bool sending() const noexcept { return !leaving_.empty(); }
  /// false: not one of these.
  bool cancel(const Completion& done);

  int progress() noexcept override;
  bool active() const noexcept override { return !messages_.empty() || !leaving_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  /// Nobody is woken by a device: only while all is with the transport, which wakes.
  bool arm() noexcept override;
  void disarm() noexcept override {}

 private:
  enum class Step : std::uint8_t { CopyIn, Travelling, CopyOut, Over };
  struct Message : Completion {
    Completion* done = nullptr;
    Step step = Step::Over;
    Buffer to{};  // of a receive
    std::vector<DeviceRuntime::Event> events;
    Buffer pinned;
    Endpoint* endpoint = nullptr;
    bool cancelled = false;
    std::function<Endpoint&(Buffer, Completion&)> post;
  };
  /// A send that has not left, or what waits behind one.
  struct Leaving {
    Message* message = nullptr;
    std::function<void()> launch;
  };

  Message& make(std::size_t bytes, Completion& done);
  void begin(StreamRef after, Message& message);
  void fail(Message& message, const Error& why) noexcept;
  bool copied(Message& message);
  void post(Message& message);
  int let_leave();
  bool advance(Message& message);
  Buffer take(std::size_t bytes);

  DeviceRuntime& runtime_;
  const int device_;
  StreamRef stream_;
  std::deque<Leaving> leaving_;
  std::vector<std::unique_ptr<Message>> messages_;
  std::multimap<std::size_t, Buffer> spare_;  // by length
};

}  // namespace sinew
