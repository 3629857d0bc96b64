#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/transports/shm/messages/connection.hpp>
#include <sinew/transports/shm/messages/frame_writer.hpp>

namespace sinew::shm {

/// The receiving half of an endpoint. Small messages come in the ring. A rendezvous message is read where it lies
/// (registered memory, threads of one process, or through the kernel). Otherwise the peer copies it into the ring.
class Receiver final : MatcherWire {
 public:
  /// Both outlive it.
  Receiver(Connection& connection, FrameWriter& out);
  ~Receiver() { end_incoming(); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void recv(Sink to, Tag tag, Completion& done) { matcher_.recv(to, tag, done); }
  bool has_unexpected(Tag tag) const noexcept { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) { return matcher_.cancel(done); }
  /// Posted receives that have not ended.
  std::size_t pending() const noexcept { return matcher_.pending(); }
  /// Some message waits to be read in place.
  bool wants_to_read() const noexcept { return !pulls_.empty(); }
  /// Reads a part of the first message that waits to be read in place. Returns 1 if something moved, else 0.
  int read() noexcept;

  // Frames from the peer.
  void eager(const Frame& frame) { matcher_.eager({{frame.tag}, frame.note, frame.bytes}, frame.payload()); }
  void first_fragment(const Frame& frame);
  void next_fragment(const Frame& frame);
  void requested(const Frame& frame);
  void streamed(const Frame& frame);
  /// The peer has withdrawn a rendezvous message. Does nothing if this rank has granted the message before: then the
  /// peer sends Gone, or the read in place finds the message withdrawn.
  void withdrawn(std::uint32_t id);
  /// The peer had withdrawn a message before it was granted.
  void gone(std::uint32_t receive);

  /// This side ends.
  void close(const Status& reason) noexcept;
  /// The peer is lost.
  void fail(const Status& reason) noexcept;

 private:
  /// A message that waits at the peer, until it is granted or refused.
  struct Offer {
    std::uint64_t bytes = 0;
    std::uint64_t place = 0;
    std::uint32_t id = 0;
    std::uint32_t ticket = kNoTicket;
    Access access = Access::Staged;
    bool used = false;
    bool in_fragments = false;  ///< true: the offer stands for incoming_, and not for a message in the peer's memory
  };
  /// An eager message of several frames, the last of which has not come.
  struct Incoming {
    Envelope envelope;
    std::uint64_t offer = 0;
    std::uint64_t arrived = 0;      ///< the bytes that have come
    Completion* receive = nullptr;  ///< the receive that takes them; null: it is not known yet
    std::byte* kept = nullptr;      ///< a block of the pool with the bytes that no receive has taken; null: none
    bool under_way = false;
    bool dropped = false;
  };
  /// A message that this rank reads in place, one at a time.
  struct Pull {
    Completion* receive = nullptr;
    Offer offer;
    std::uint64_t read = 0;
  };

  void grant(std::uint64_t offer, Completion& receive) override;
  void refuse(std::uint64_t offer, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;

  bool reads_directly(const Offer& offer) noexcept;
  bool may_read() noexcept;
  bool claim(Pull& pull) noexcept;
  bool read_some(Pull& pull) noexcept;
  bool read_through_kernel(Pull& pull, Completion& receive, std::uint64_t place, std::uint64_t bytes) noexcept;
  Status still_offered(const Offer& offer) const;
  void take_in(const Frame& frame);
  void end_incoming() noexcept;
  std::uint64_t keep(const Offer& offer);
  void request_stream(std::uint32_t id, Completion& receive);
  void give_up_claim() noexcept;
  void end_granted(const Status& reason) noexcept;

  Connection& connection_;
  FrameWriter& out_;
  Matcher matcher_;
  std::optional<bool> may_read_;  // the peer's ordinary memory, through the kernel; empty: not tried
  std::uint64_t returned_ = 0;
  std::vector<Offer> offers_;
  Incoming incoming_;
  SlotTable<Completion> granted_;  // receives whose bytes the peer streams
  std::deque<Pull> pulls_;
  bool claimed_ = false;  // the first of pulls_
  std::vector<std::byte> bounce_;
};

}  // namespace sinew::shm
