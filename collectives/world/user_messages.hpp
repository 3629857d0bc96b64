#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sinew/collectives/message.hpp>
#include <sinew/collectives/messages/any_receives.hpp>
#include <sinew/collectives/messages/message_group.hpp>
#include <sinew/collectives/staging/messages.hpp>
#include <sinew/collectives/transfers/transfer.hpp>
#include <sinew/core/call/call_options.hpp>
#include <sinew/core/runtime/call_record.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/work.hpp>

namespace sinew {

struct CommunicatorState;

/// The messages that users of one communicator send and receive.
/// Thread: functions that start messages take the World's lock. Callers of the other functions hold it.
class UserMessages {
 public:
  explicit UserMessages(CommunicatorState& of);

  Work start(const Message& message, const CallOptions& options);
  Work start_group(std::span<const Message> messages, const CallOptions& options);
  /// Starts a receive from any rank.
  Work start_any(const Message& message, const CallOptions& options);
  /// Sends or receives a message and waits for its end. If the deadline passes first, the message is cancelled and the
  /// communicator goes on. Returns the message's status, which is then Cancelled.
  Status pass(const Message& message, CallOptions options, Deadline deadline);

  /// Cancels all messages in flight, since the communicator has ended with `reason`.
  void end(const Status& reason) noexcept;
  /// True if a peer may still answer to a message that was cancelled here. The id of the communicator must not be used
  /// again then.
  bool has_cards() const noexcept;
  /// Gives memory back to the World. Precondition: no message is in flight, or none can make progress any more.
  void release() noexcept;

 private:
  StagedMessages& staged();
  AnyReceives& any_receives();
  void require_own_device(Collective call, const Message& message, const CallOptions& options) const;
  /// Starts a message.
  PendingCall& open(const Message& message, const CallOptions& options);
  void launch(const Message& message, StreamRef after, Completion& done);
  /// Sends or receives device memory that the transport to the peer does not take.
  /// Counts a message to or from a peer that a transport reaches.
  void count(const Message& message);
  void launch_through_host(const Message& message, StreamRef after, Completion& done);
  void post(const Message& message, Completion& done);
  TransferRoute route_to(int peer);
  Tag tag_of(std::uint32_t users) const noexcept;
  /// Returns the note that all messages of the communicator carry. It is not 0, which a receive takes for any note.
  std::uint64_t note() const noexcept;
  void cancel(int peer, Completion& done);
  /// Cancels a message that was posted.
  void take_back(int peer, Completion& posted);
  /// Returns null if no transport reaches the peer.
  Endpoint* endpoint_to(int peer);
  /// True if the transport to the peer takes device memory.
  bool takes_device_memory(int peer) const;
  /// Returns the fastest transport to the peer that takes device memory here, as its place in Facts::transports. -1:
  /// there is none.
  int find_direct(int peer) const;

  CommunicatorState& of_;
  MessageGroups groups_;
  std::vector<Endpoint*> endpoints_;  // by rank; null: not used yet
  /// The counters of receives and sends, by rank; null: not used yet. Empty before the first message.
  std::vector<std::array<CallCounters*, 2>> counters_;
  std::vector<std::optional<int>> direct_;     // of find_direct(), by rank
  std::unique_ptr<StagedMessages> staged_;     // made by the first message of device memory
  std::unique_ptr<AnyReceives> any_receives_;  // made by the first receive from any rank
};

}  // namespace sinew
