#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/shm/messages/connection.hpp>
#include <sinew/transports/shm/messages/frame_writer.hpp>

namespace sinew::shm {

/// The sending half of an endpoint. It copies short messages into the ring, in several frames if one does not hold
/// them. For a longer message it sends a request first. If the peer grants the request, it copies the message into the
/// ring.
class Sender {
 public:
  /// Longer messages always go by rendezvous. Hub::eager_bytes may be less.
  static constexpr std::size_t kEagerBytes = 64 << 10;

  /// Both outlive it.
  Sender(Connection& connection, FrameWriter& out) : connection_(connection), out_(out) {}

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done);
  /// Sends messages that have waited for room in the ring, and a fragment of each message that is streamed. Returns how
  /// many frames it sent.
  int flush() noexcept;
  /// Some send has not ended.
  bool active() const noexcept { return !waiting_.empty() || rendezvous_.count() != 0; }
  bool wants_room() const noexcept { return !waiting_.empty() || !streaming_.empty(); }

  // Frames from the peer.
  /// The peer wants the bytes of a rendezvous message.
  void granted(std::uint32_t id, std::uint32_t receive);
  /// The peer has read a rendezvous message.
  void taken(std::uint32_t id) noexcept { end(id, {}); }
  /// The peer will not take a rendezvous message. The send ends with Mismatch if the two ranks made different calls.
  /// Otherwise the send ends as if the peer had read the message.
  void refused(const Frame& frame);

  // Cancelling a send takes two steps. Between them the frames that have come must be handled: one of them may say that
  // the peer has taken the message.
  /// true: the send waited for room, and is cancelled.
  bool cancel_waiting(Completion& done);
  /// The peer may not begin to read the message any more. Returns its id; nullopt: the peer reads it already.
  std::optional<std::uint32_t> stop_offering(Completion& done);
  /// Cancels the send of that id. false: it has ended, or the peer wants its bytes.
  bool withdraw(std::uint32_t id);

  /// This side ends. All sends end with `reason` but those that the peer is reading.
  void close(const Status& reason) noexcept;
  /// The peer is lost: all sends end with `reason`.
  void fail(const Status& reason) noexcept;
  /// After close(): ends the sends that nobody reads any more. true: there are no others.
  bool end_unread() noexcept;
  /// After close(): ends all sends.
  void end_all(const Status& reason) noexcept;

 private:
  bool put(Completion& send);
  bool put_first_waiting();
  bool put_eager(Completion& send);
  bool put_fragments(Completion& send);
  void send_request(Completion& send, Frame& frame);
  void end(std::uint32_t id, Status status) noexcept;
  void end_waiting(const Status& reason) noexcept;
  bool is_being_read(Completion& send, std::uint32_t id) const noexcept;
  int stream() noexcept;

  Connection& connection_;
  FrameWriter& out_;
  CreditWindow credit_;
  std::uint64_t credit_seen_ = 0;  // of Box::returned
  CompletionQueue waiting_;        // sends that have not found room
  SlotTable<Completion> rendezvous_;
  std::vector<std::uint32_t> streaming_;  // ids of messages that the peer has granted
};

}  // namespace sinew::shm
