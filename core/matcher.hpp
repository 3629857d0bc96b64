#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/operation.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/block_pool.hpp>
#include <sinew/core/transport/tag.hpp>

namespace sinew {

/// The header of a message.
struct Envelope {
  Tag tag;
  std::uint64_t note = 0;
  std::uint64_t bytes = 0;
};

/// The requests of a matcher to its transport. The matcher calls them inside its own functions. The transport may queue
/// frames or write them, but it completes nothing there. The only functions of the matcher that it may call are
/// deliver, arrived, repost and fail, for the receive that was passed.
class MatcherWire {
 public:
  /// The rendezvous message `id` has found its receive. The transport brings the bytes and passes them to deliver(), or
  /// it writes them to place() and calls arrived().
  virtual void grant(std::uint64_t id, Completion& receive) = 0;
  /// No receive will take the bytes of the rendezvous message `id`. If `why` is Mismatch, its send ends with Mismatch
  /// and `note` is the note that the receiver expected. Otherwise (Truncated, Cancelled) its send ends with Ok.
  virtual void refuse(std::uint64_t id, Code why, std::uint64_t note) = 0;
  /// A receive has taken an eager message, or the message was dropped. The transport gives its charge
  /// (CreditWindow::charge_for) back to the sender.
  virtual void return_credit(std::size_t charge) = 0;

 protected:
  ~MatcherWire() = default;
};

/// Matches the messages of one peer with receives. It keeps posted receives and unexpected messages. A message matches
/// a receive with exactly its tag, and equal tags match in the order of the sends.
/// It uses no socket, clock or lock. Receives that have ended are added to `finished`, and progress() fires them.
/// A receive ends with Mismatch and the sender's note in two cases: the note of its message is not the expected one, or
/// a message of the same call but with another note has come. No byte is written then. Messages of another generation
/// are dropped.
/// Thread: one at a time.
class SINEW_API Matcher {
 public:
  Matcher(MatcherWire& wire, BlockPool& pool, FinishedOperations& finished, std::uint8_t generation) noexcept;
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // The endpoint calls these.
  void recv(Sink to, Tag tag, Completion& done);
  /// True if an unexpected message with this tag is here.
  bool has_unexpected(Tag tag) const noexcept;
  /// Cancels a receive. If true is returned, it will fire with Cancelled. False is returned for a send, and for a
  /// receive that has found its message. Should the sender withdraw that message, the receive will not wait for another
  /// one.
  bool cancel(Completion& done);
  /// Ends posted receives with `reason`. Later receives end with it too, unless their whole message is here already.
  void fail(const Status& reason);
  /// Ends posted and later receives with `reason`, and drops unexpected messages.
  void close(const Status& reason);

  // The transport calls these for frames of the peer, in the order of the sends.
  /// An eager message has come. `data` is memory of the transport, which it may reuse when this returns.
  void eager(const Envelope& envelope, const std::byte* data);
  /// The request of a rendezvous message has come. The message stays at its sender until grant() or refuse() of its
  /// `id`.
  void rendezvous(const Envelope& envelope, std::uint64_t id);
  /// The sender withdraws a rendezvous message. Returns false if the message does not wait here, because it was granted
  /// or refused, or is unknown.
  bool withdraw(std::uint64_t id);

  // The transport calls these for a receive that was granted. Bytes come in order, except with deliver_at().
  /// Returns the memory for the rest of the message. Its data is null if the receive reduces: then the bytes must go
  /// through deliver(). Bytes for device memory must not, so the transport writes them itself. The returned place tells
  /// the kind of memory, but not the device.
  static Buffer place(Completion& receive) noexcept;
  static std::size_t bytes_left(Completion& receive) noexcept;
  /// Returns the bytes of an element if the receive reduces, else 1. Each call of deliver() passes a multiple of it.
  static std::size_t element_bytes(Completion& receive) noexcept;
  /// Copies or reduces the next bytes, which lie in the transport's memory.
  void deliver(Completion& receive, const std::byte* data, std::size_t bytes) noexcept;
  /// As deliver(), for the bytes that begin at offset `at` of the message. They may come in any order, but only once.
  void deliver_at(Completion& receive, std::size_t at, const std::byte* data, std::size_t bytes) noexcept;
  /// The transport has written the next bytes to place().
  void arrived(Completion& receive, std::size_t bytes) noexcept;
  /// The sender has withdrawn the message before a byte came. The receive is posted again, at its old position.
  void repost(Completion& receive);
  /// The rest of the message will not come, because the peer is lost or the endpoint is closed. Completion::bytes is
  /// then the length of the message.
  void fail(Completion& receive, Status reason) noexcept;

  /// The number of receives that have not finished.
  std::size_t pending() const noexcept { return pending_; }

 private:
  struct Unexpected;
  struct UnexpectedQueue {
    Unexpected* head = nullptr;
    Unexpected* tail = nullptr;
  };
  /// A message that has just come, or that was kept. It is eager with its bytes at `data`, or a rendezvous under `id`.
  struct Arrival {
    const Envelope& envelope;
    std::uint64_t id;
    const std::byte* data;
    bool eager;
  };
  /// The number of queues is a power of two. All messages of one call are in the same queue.
  static constexpr std::size_t kQueues = 16;

  static std::size_t queue_of(Tag tag) noexcept;
  void arrive(const Arrival& arrival);
  void take(Completion& receive, const Arrival& arrival);
  void drop(const Arrival& arrival, Code why, std::uint64_t expected);
  void keep(const Arrival& arrival);
  bool mismatches_posted(const Envelope& envelope, std::uint64_t& expected);
  bool mismatches_unexpected(Tag tag, Completion& done);
  template <class Wanted>
  Unexpected* take_unexpected(UnexpectedQueue& queue, Wanted wanted);
  void release(Unexpected& message) noexcept;
  void end_posted(const Status& reason);
  void advance(Completion& receive, std::size_t bytes) noexcept;
  void finish(Completion& receive, Status status) noexcept;

  MatcherWire& wire_;
  BlockPool& pool_;
  FinishedOperations& finished_;
  std::array<CompletionQueue, kQueues> posted_{};
  std::array<UnexpectedQueue, kQueues> unexpected_{};
  std::size_t pending_ = 0;
  Status end_{};  // if it is not Ok, later receives end with it
  std::uint8_t generation_;
};

}  // namespace sinew
