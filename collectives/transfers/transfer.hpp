#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sinew/collectives/transfers/card.hpp>
#include <sinew/collectives/transfers/piece_pool.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// The communicator and the peer of a message.
struct TransferRoute {
  Endpoint* endpoint = nullptr;    ///< to the peer
  const void* owner = nullptr;     ///< the communicator; null: it is destroyed
  std::uint64_t note = 0;          ///< of the communicator's messages; not 0
  std::uint16_t communicator = 0;  ///< its odd id
  std::uint8_t generation = 0;
  bool same_process = false;  ///< true if the peer is a thread of this process, or this rank
  bool same_host = false;     ///< true if the peer is on this rank's host
  int peer = 0;               ///< a rank of the communicator
  int world_rank = 0;         ///< the peer's
  /// The transport to the peer that takes memory of this rank's device: its place in Facts::transports. -1: none.
  int direct = -1;
  std::size_t direct_most_bytes = 0;  ///< the longest message that this transport takes

  Tag tag(std::uint32_t tag_or_number, UserMessageKind kind) const noexcept {
    return Tag::user(generation, communicator, tag_or_number, kind);
  }
};

/// The means by which the transfers of a World copy in one direction. All members are null on a rank without a device.
struct TransferMeans {
  DeviceRuntime* runtime = nullptr;
  StreamRef stream{};
  PiecePool* pool = nullptr;
  PeerMemory* path = nullptr;  ///< null: this rank cannot read memory of other processes' devices
  /// Returns the connection to a rank of the World over a transport.
  std::function<Endpoint&(int world_rank, int transport)> connect{};
};

/// The bytes that the long messages of a World have taken on each way, on this rank.
struct TransferCounts {
  std::uint64_t staged_bytes = 0;       ///< copied between device memory and pinned memory
  std::uint64_t peer_copied_bytes = 0;  ///< copied from the memory of another device
  std::uint64_t direct_bytes = 0;       ///< sent over a transport that takes device memory
};

/// A message that a transfer has given to the transport.
struct TransferPart : Completion {
  bool pending = false;
  bool is_kept = false;    ///< DeviceTransfer::give_up() does not cancel the message
  Endpoint* on = nullptr;  ///< the connection that has the message
  TransferPart() noexcept : Completion([](Completion& c) noexcept { static_cast<TransferPart&>(c).pending = false; }) {}
};

/// An event that a transfer waits for. It throws what the runtime throws.
class TransferEvent {
 public:
  TransferEvent() noexcept = default;
  ~TransferEvent() { drop(); }
  TransferEvent(const TransferEvent&) = delete;
  TransferEvent& operator=(const TransferEvent&) = delete;

  void record(DeviceRuntime& runtime, StreamRef stream) {
    event_ = runtime.record(stream);
    runtime_ = &runtime;
  }
  /// True if there is no event, or the work before the event has run.
  /// Errors: as DeviceRuntime::query(). There is no event then.
  bool over();
  bool is_set() const noexcept { return runtime_ != nullptr; }

 private:
  void drop() noexcept {
    if (runtime_ != nullptr) runtime_->release(event_);
    runtime_ = nullptr;
  }
  DeviceRuntime* runtime_ = nullptr;
  DeviceRuntime::Event event_ = 0;
};

/// The common part of both sides of a transfer: the conversation with the peer, the pieces, and the end.
/// The user's completion fires once, when the transport and the device no longer use the user's buffer. The object may
/// live longer, until its last message has ended.
class SINEW_API DeviceTransfer {
 public:
  virtual ~DeviceTransfer();
  DeviceTransfer(const DeviceTransfer&) = delete;
  DeviceTransfer& operator=(const DeviceTransfer&) = delete;

  const TransferRoute& route() const noexcept { return route_; }
  bool is_of(const Completion& done) const noexcept { return done_ == &done; }
  bool is_open() const noexcept { return done_ != nullptr; }
  /// Ends the transfer on this side, because its communicator has ended.
  void end(const Status& reason) noexcept;
  void forget_owner() noexcept { route_.owner = nullptr; }
  /// Forgets the user's operation, which will not be ended.
  void forget_operation() noexcept { done_ = nullptr; }
  /// True if the transfer only waits for the end of its messages and copies.
  bool is_closing() const noexcept { return closing_; }
  /// Moves the transfer on. Returns true if it is over. It must be destroyed then.
  bool advance() noexcept;
  /// True if only a message of the peer can move the transfer on.
  virtual bool waits_for_peer() const noexcept = 0;
  /// Says in words why the transfer waits.
  virtual std::string describe() const = 0;

 protected:
  /// A piece on its way: its pinned memory, its message and its copy.
  struct Piece {
    TransferPart part;
    TransferEvent copy;
  };

  DeviceTransfer(const TransferMeans& means, TransferCounts& counts, const TransferRoute& route, std::uint32_t number,
                 Completion& done) noexcept
      : means_(means), counts_(counts), route_(route), number_(number), done_(&done), note_(done.note) {}

  /// Does what can be done now. Errors: end the transfer.
  virtual void step() = 0;
  /// True if a message that is in flight, or the peer, uses the user's buffer. Asked when the copies of this rank are
  /// over and the transfer closes.
  virtual bool uses_buffer() noexcept { return false; }
  /// The last words to the peer. Called once, when the copies of this rank are over and the transfer closes.
  virtual void take_leave() {}

  void send(ConstBuffer from, UserMessageKind kind, TransferPart& part) { send_on(*route_.endpoint, from, kind, part); }
  void receive(Buffer to, UserMessageKind kind, TransferPart& part) { receive_on(*route_.endpoint, to, kind, part); }
  void send_on(Endpoint& endpoint, ConstBuffer from, UserMessageKind kind, TransferPart& part);
  void receive_on(Endpoint& endpoint, Buffer to, UserMessageKind kind, TransferPart& part);
  void say(TransferWord word, UserMessageKind kind);
  /// Returns nullopt if the word has not come.
  /// Errors: Error with the status that the message ended with.
  std::optional<TransferWord> word(const TransferPart& part, const std::uint64_t& value) const;
  /// Ends the user's operation.
  void finish(Status status) noexcept;
  /// The transfer ends with this status when its messages and copies have ended.
  void close(Status status) noexcept;
  /// As close(), but the messages in flight are cancelled.
  void give_up(Status status) noexcept;
  void cut(std::uint64_t bytes) noexcept;
  std::size_t length_of(std::uint64_t index) const noexcept;
  std::size_t offset_of(std::uint64_t index) const noexcept { return index * piece_bytes_; }
  Piece& piece(std::uint64_t number) noexcept { return pieces_[number % kPiecesInFlight]; }
  Buffer pinned(std::uint64_t number) const noexcept {
    return pinned_.part(number % kPiecesInFlight * kPieceBytes, length_of(number));
  }
  /// Takes pinned memory. Returns false if other transfers must end first.
  bool take_pinned();
  /// Copies on the direction's stream, and lets `over` tell the end.
  void copy(Buffer to, ConstBuffer from, TransferEvent& over);
  /// Connects over TransferRoute::direct. Returns false if that fails. Nothing of the way Direct fails before the
  /// message itself then.
  bool connect_direct() noexcept;

  const TransferMeans& means_;
  TransferCounts& counts_;
  TransferRoute route_;
  std::uint32_t number_;
  Completion* done_;
  std::uint64_t note_;       // of the user's completion at its end
  std::uint64_t bytes_ = 0;  // of the message
  std::uint64_t count_ = 0;  // of pieces
  TransferPart details_part_;
  Endpoint* direct_ = nullptr;  // of connect_direct()
  TransferPart direct_part_;    // the whole message, on the way Direct
  TransferDetails details_;
  std::array<Piece, kPiecesInFlight> pieces_;
  TransferEvent after_;  // the user's stream has come to the call

 private:
  struct Said {
    TransferPart part;
    std::uint64_t word = 0;
  };
  template <class F>
  void for_each_part(F&& visit);
  virtual TransferPart* own_parts(std::size_t index) noexcept = 0;
  bool is_quiet() noexcept;
  bool copies_are_over() noexcept;

  std::uint64_t piece_bytes_ = 0;
  Buffer pinned_;
  std::array<Said, 2> said_;
  std::size_t words_said_ = 0;
  bool closing_ = false;
  bool gives_up_ = false;
  bool has_taken_leave_ = false;
  Status end_;
};

}  // namespace sinew
