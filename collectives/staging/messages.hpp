#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/device.hpp>
#include <sinew/core/transport/progress_source.hpp>

namespace sinew {

/// The point to point messages of one communicator on device memory. Over transports that know only the host's each
/// goes through pinned memory of its length; others are only kept until their stream has come so far. Sends leave in
/// the order in which they were made, and receives are posted in theirs. Thread: of the World's engine. Cost: pinned
/// memory of the messages in flight at most, kept for later ones.
class SINEW_API StagedMessages : public ProgressSource {
 public:
  StagedMessages(DeviceRuntime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~StagedMessages() override;

  /// Cancels a message that was posted.
  using TakeBack = std::function<void(Completion& posted)>;
  /// Hands the pinned memory of a message to the transport.
  using Post = std::function<TakeBack(Buffer pinned, Completion& posted)>;

  /// `done` fires from this source's progress().
  void send(ConstBuffer from, StreamRef after, Post post, Completion& done);
  void recv(Buffer to, StreamRef after, const Post& post, Completion& done);
  /// Runs `launch`, which posts `done`'s message, when `after` has come so far and all that waits here has left.
  void queue(bool sends, StreamRef after, std::function<void()> launch, Completion& done);
  /// A message that waits for no stream must queue, too.
  bool must_queue(bool sends) const noexcept { return sends ? !leaving_.empty() : receives_leaving_ > 0; }
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
    TakeBack take_back;
    bool cancelled = false;
    Post post;
  };
  /// A send that has not left, or what waits behind one or for a stream.
  struct Leaving {
    Message* message = nullptr;  // null: the others are set
    bool sends = true;
    bool waits = false;  // for `event`
    DeviceRuntime::Event event = 0;
    std::function<void()> launch;
    Completion* done = nullptr;
    Status status{};  // not Ok: will not be launched
  };

  Message& make(std::size_t bytes, Completion& done);
  void begin(StreamRef after, Message& message);
  void fail(Message& message, const std::exception& why) noexcept;
  bool copied(Message& message);
  void post(Message& message);
  bool may_launch(Leaving& first);
  int end_cancelled();
  int let_leave();
  bool advance(Message& message);
  Buffer take(std::size_t bytes);

  DeviceRuntime& runtime_;
  const int device_;
  StreamRef stream_;
  std::deque<Leaving> leaving_;
  std::size_t receives_leaving_ = 0;
  std::vector<std::unique_ptr<Message>> messages_;
  std::multimap<std::size_t, Buffer> spare_;  // by length
};

}  // namespace sinew
