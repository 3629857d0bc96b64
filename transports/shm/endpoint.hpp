#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/shm/port.hpp>

namespace sinew::shm {

/// What the endpoints of one rank share.
struct Hub {
  HostPeers& host;
  int rank;
  std::uint8_t generation;
  std::uint64_t salt;  ///< of all rings that this rank writes
  Port* port = nullptr;
  /// Ordinary memory of messages of these lengths is read through the kernel rather than poured into the ring.
  std::atomic<std::uint64_t> read_from_bytes{~std::uint64_t{0}};
  std::atomic<std::uint64_t> read_to_bytes{~std::uint64_t{0}};
  std::uint64_t proof = 0;  ///< Port::proof, in ordinary memory
  BlockPool pool;
  FinishedOperations finished;
  std::vector<std::uint32_t> free_tickets;
  std::vector<class ShmEndpoint*> endpoints;
};

/// The connection to one rank of this host. Small messages are copied into the ring. A longer one is announced; its
/// receiver then reads it where it lies (registered memory, threads of one process, or through the kernel), or has it
/// poured into the ring piece by piece.
class ShmEndpoint final : public Endpoint, MatcherWire {
 public:
  static constexpr std::size_t kEagerBytes = kPieceBytes;

  ShmEndpoint(Hub& hub, const PortAddress& peer);
  ~ShmEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override;
  bool holds(Tag tag) const noexcept override { return matcher_.holds(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& quiet) override;

  /// One turn of everything that can move; returns how much did.
  int progress() noexcept;
  bool can_progress() noexcept;
  bool active() const noexcept;

 private:
  /// A message that waits at the peer, until it is granted or refused.
  struct Offer {
    std::uint64_t bytes = 0;
    std::uint64_t place = 0;
    std::uint32_t id = 0;
    std::uint32_t ticket = kNoTicket;
    Access access = Access::Staged;
    bool used = false;
  };
  /// A message that this rank reads in place, one at a time.
  struct Pull {
    Completion* receive = nullptr;
    Offer offer;
    std::uint64_t read = 0;
  };
  struct Control {
    FrameKind kind;
    std::uint32_t id = 0;
    std::uint32_t receive = 0;
    Code why = Code::Ok;
    std::uint64_t note = 0;
  };

  // Sending.
  bool put(Completion& send);
  bool put_first_waiting();
  bool put_eager(Completion& send);
  void announce(Completion& send, Frame& frame);
  bool take_back(Completion& send);
  void granted(std::uint32_t id, std::uint32_t receive);
  void refused(const Frame& frame);
  void end_send(std::uint32_t id, Status status) noexcept;
  void publish(Frame& frame, std::uint16_t lines) noexcept;
  int flush() noexcept;
  bool flush_controls() noexcept;
  int pour() noexcept;

  // Receiving.
  void grant(std::uint64_t offer, Completion& receive) override;
  void refuse(std::uint64_t offer, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;
  int handle_frames();
  void handle(const Frame& frame);
  void keep_offer(const Frame& frame);
  void withdraw_offer(std::uint32_t id);
  void pour_in(const Frame& frame);
  bool reads_in_place(const Offer& offer) noexcept;
  bool may_read() noexcept;
  int pull() noexcept;
  bool claim(Pull& pull) noexcept;
  bool read_some(Pull& pull) noexcept;
  Status still_offered(const Offer& offer) const;
  bool read_through_kernel(Pull& pull, Completion& receive, std::uint64_t place, std::uint64_t bytes) noexcept;
  void ask_to_pour(std::uint32_t id, Completion& receive);

  // Ending.
  void end(const Status& reason) noexcept;
  void end_receives(const Status& reason) noexcept;
  void lose_peer() noexcept;
  void fire_quiet() noexcept;
  void take_all_back(const Status& reason) noexcept;
  bool being_read(Completion& send, std::uint32_t id) const noexcept;

  Hub& hub_;
  const int peer_;
  Box& mine_;
  const Box& theirs_;
  const Port& their_port_;
  const std::byte* their_heap_;
  HostWaker waker_;
  const bool same_process_;
  std::optional<bool> may_read_;  // the peer's ordinary memory, through the kernel; empty: not tried
  RingWriter out_;
  RingReader in_;

  CreditWindow credit_;
  std::uint64_t credit_seen_ = 0;  // of theirs_.returned
  CompletionQueue waiting_;        // sends that have not found room
  SlotTable<Completion> announced_;
  std::vector<std::uint32_t> pouring_;  // ids of those that are granted
  std::deque<Control> controls_;        // that have not found room

  Matcher matcher_;
  std::uint64_t returned_ = 0;
  std::vector<Offer> offers_;
  SlotTable<Completion> granted_;  // receives that are poured into
  std::deque<Pull> pulls_;
  bool claimed_ = false;  // the first of pulls_
  std::vector<std::byte> bounce_;

  Status end_{};
  Completion* quiet_ = nullptr;
};

}  // namespace sinew::shm
