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

/// What is known of a message before its bytes.
struct Envelope {
  Tag tag;
  std::uint64_t note = 0;
  std::uint64_t bytes = 0;
};

/// What a matcher asks of its transport. Called from inside any of the matcher's functions, so it only enqueues: it
/// may call deliver, arrived, repost and fail on the receive it was given, and nothing else of the matcher.
class MatcherWire {
 public:
  /// The announced message `id` has found its receive: bring its bytes by deliver(), or place() and arrived().
  virtual void grant(std::uint64_t id, Completion& receive) = 0;
  /// Nobody will take the bytes of `id`: its send ends Ok (Truncated, Cancelled: the receiver's affair) or Mismatch,
  /// then `note` is what the receiver expected.
  virtual void refuse(std::uint64_t id, Code why, std::uint64_t note) = 0;
  /// An eager message has been taken or dropped: its charge (CreditWindow::charge_for) is the sender's again.
  virtual void return_credit(std::size_t charge) = 0;

 protected:
  ~MatcherWire() = default;
};

/// The receiving half of one peer: posted receives and unexpected messages, exact tags in the order of the sends.
/// It knows no wire, clock or lock, and never fires: decided receives go to `finished`, which progress() fires.
/// A message of the same call as a posted receive but with another note, or one whose receive expects another note,
/// ends the receive with Mismatch and the sender's note before a byte is taken. Messages of another generation are
/// dropped. Thread: one at a time.
class SINEW_API Matcher {
 public:
  Matcher(MatcherWire& wire, BlockPool& pool, FinishedOperations& finished, std::uint8_t generation) noexcept;
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  // From the endpoint.
  void recv(Sink to, Tag tag, Completion& done);
  /// Does a message with this tag wait here?
  bool has_unexpected(Tag tag) const noexcept;
  /// true: it will fire Cancelled. false: not a receive, or its message has been found; should that be taken back by
  /// its sender, the receive does not wait for another.
  bool cancel(Completion& done);
  /// Posted receives end with `reason`, later ones that find no message that is here in full likewise.
  void fail(const Status& reason);
  /// Posted receives end with `reason`, what waits unexpected is dropped, later receives end with `reason`.
  void close(const Status& reason);

  // From the wire, in the order of the sends.
  /// A message that came unasked; `data` is the transport's memory and free again on return.
  void eager(const Envelope& envelope, const std::byte* data);
  /// A message that waits at its sender; `id` comes back through grant or refuse.
  void rendezvous(const Envelope& envelope, std::uint64_t id);
  /// The sender takes an announced message back. false: it is not waiting here (granted, refused or unknown).
  bool withdraw(std::uint64_t id);

  // For a receive that was granted, bytes in order.
  /// Where the rest goes; data is null for a reducing receive, whose bytes must be delivered. Those of device memory
  /// must not: the transport brings them itself. Which device it is, is not kept.
  static Buffer place(Completion& receive) noexcept;
  static std::size_t bytes_left(Completion& receive) noexcept;
  /// 1, or of a reducing receive the bytes of an element: pieces to deliver are multiples of it.
  static std::size_t element_bytes(Completion& receive) noexcept;
  /// The next bytes lie in the transport's memory: copies or reduces them. Pieces of a reduction are whole elements.
  void deliver(Completion& receive, const std::byte* data, std::size_t bytes) noexcept;
  /// As deliver, of bytes from `at` of the message on: in any order, each once.
  void deliver_at(Completion& receive, std::size_t at, const std::byte* data, std::size_t bytes) noexcept;
  /// The next bytes lie at place().
  void arrived(Completion& receive, std::size_t bytes) noexcept;
  /// Its sender took the message back before a byte came: the receive waits again, in its old place.
  void repost(Completion& receive);
  /// The message ends here (peer lost, endpoint closed). `bytes` is what was on its way, not what came.
  void fail(Completion& receive, Status reason) noexcept;

  /// Receives that have not finished.
  std::size_t pending() const noexcept { return pending_; }

 private:
  struct Unexpected;
  struct UnexpectedQueue {
    Unexpected* head = nullptr;
    Unexpected* tail = nullptr;
  };
  /// One message, just come or kept: announced under `id`, or eager with its bytes at `data`.
  struct Arrival {
    const Envelope& envelope;
    std::uint64_t id;
    const std::byte* data;
    bool eager;
  };
  /// A power of two; all messages of one call share a queue.
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
  Status end_{};  // not Ok: what later receives end with
  std::uint8_t generation_;
};

}  // namespace sinew
