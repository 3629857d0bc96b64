#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sinew/collectives/message.hpp>
#include <sinew/collectives/messages/any_receives.hpp>
#include <sinew/collectives/messages/message_group.hpp>
#include <sinew/collectives/staging/messages.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

struct CommunicatorState;

/// The messages that users of one communicator send and receive.
/// Thread: start() and its kind take the World's lock. The others are called under it.
class UserMessages {
 public:
  explicit UserMessages(CommunicatorState& of);

  Work start(const Message& message, const CallOptions& options);
  Work start_group(std::span<const Message> messages, const CallOptions& options);
  /// A receive from any rank.
  Work start_any(const Message& message, const CallOptions& options);
  /// Sends or receives a message and waits for its end. When the deadline passes first, the message is taken back, and
  /// the communicator goes on. Returns what the message ended with, Cancelled if it was taken back.
  Status pass(const Message& message, CallOptions options, Deadline deadline);

  /// Takes back all that is in flight, as the communicator has ended with `reason`.
  void end(const Status& reason) noexcept;
  /// Gives back what belongs to the World's parts. Nothing is in flight, or nothing moves any more.
  void release() noexcept;

 private:
  StagedMessages& staged();
  AnyReceives& any_receives();
  void require_own_device(Collective call, const Message& message, const CallOptions& options) const;
  /// Starts a message.
  PendingCall& open(const Message& message, const CallOptions& options);
  void launch(const Message& message, StreamRef after, Completion& done);
  void post(const Message& message, Completion& done);
  Tag tag_of(std::uint32_t users) const noexcept;
  void cancel(int peer, Completion& done);
  /// nullptr: no transport leads there.
  Endpoint* endpoint_to(int peer);
  /// The transport that leads there does.
  bool takes_device_memory(int peer) const;

  CommunicatorState& of_;
  MessageGroups groups_;
  std::vector<Endpoint*> endpoints_;           // by rank; null: not asked for yet
  std::unique_ptr<StagedMessages> staged_;     // from the first message on device memory on
  std::unique_ptr<AnyReceives> any_receives_;  // from the first one on
};

}  // namespace sinew
