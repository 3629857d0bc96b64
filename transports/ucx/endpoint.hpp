#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/ucx/shared.hpp>

namespace sinew::ucx {

/// One peer: what its frames say meets the matcher here.
/// Its end: what UCX has not begun ends at once; what it has begun keeps its completion until UCX has let go of the
/// memory, or can touch it no more, because the process at the other end is dead and all it sent has been read. Such
/// requests are held: UCX keeps them until its worker ends.
class UcxEndpoint final : public Endpoint, MatcherWire, RequestOwner {
 public:
  /// Data that has arrived, or that waits at its sender and that `worker` can bring.
  struct Arrival {
    ucp_worker_h worker = nullptr;
    void* bytes = nullptr;
    std::size_t count = 0;
    bool waits_at_sender = false;
  };

  /// `rails`: links for data, or none.
  UcxEndpoint(Shared& shared, PeerAddress peer, Link& link, std::vector<Link*> rails = {});
  ~UcxEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override;
  bool has_unexpected(Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& closed) override;

  /// The next frame of the pair; `payload` is UCX's and free again on return.
  void take(const Frame& frame, const std::byte* payload, std::size_t bytes);
  /// Data of one of this endpoint's streams: takes them, or asks UCX to bring them.
  ucs_status_t take_data(Stream& stream, const DataFrame& data, const Arrival& arrival);
  /// The peer is gone: everything ends PeerLost, what has arrived in full can still be received.
  void lose(const std::string& how);
  /// After the end: looks whether UCX has let go. true: it has, there is nothing more to wait for.
  bool settle(bool idle);
  /// Nothing will wake whoever waits for this end: it must be polled.
  bool must_be_watched() const { return link_.peer_is_gone(); }

 private:
  /// The 64 bytes of a send.
  struct Send : Operation {
    bool on_device = false;     // `from`
    bool meets_device = false;  // `from`, or maybe where it goes
    const std::byte* from = nullptr;
    std::uint64_t left = 0;         // not sent yet, or not known to be
    Request* eager = nullptr;       // holds a copy
    std::uint32_t outstanding = 0;  // requests of UCX
    bool cleared = false;
    bool refused = false;
  };

  // MatcherWire
  void grant(std::uint64_t id, Completion& receive) override;
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;
  // RequestOwner
  void completed(Request& request, ucs_status_t status) override;

  void send_data(Completion& done, const Frame& clear);
  Link& next_link() noexcept;

  void cleared(const Frame& frame);
  void refused(const Frame& frame);
  void withdrawn(std::uint32_t id);
  void data_sent(Request& r);
  bool cancel_send(Completion& done);
  bool cancel_arriving(Completion& receive);

  void ask(Stream& stream);
  void fragment_arrived(Stream& stream);
  void end_stream(Stream& stream) noexcept;
  void fetch_ended(Request& r, ucs_status_t status);

  void end_everything(const Status& reason);
  void end_eager(const Status& reason);
  void end_streams(const Status& reason);
  void end_announced(const Status& reason);
  void let_go();
  Status lost(const std::string& how) const;
  void finish(Completion& done, Status status) { shared_.finished.add(done, std::move(status)); }

  Shared& shared_;
  const PeerAddress peer_;
  Link& link_;
  const std::vector<Link*> rails_;
  std::size_t next_rail_ = 0;
  Matcher matcher_;
  CreditWindow credit_;
  OwedCredit owed_credit_;
  SlotTable<Completion> announced_;
  Status end_{};
  Completion* closed_ = nullptr;
  bool said_closed_ = false;
  Clock::time_point ended_at_{};
  int idle_turns_ = 0;
};

}  // namespace sinew::ucx
