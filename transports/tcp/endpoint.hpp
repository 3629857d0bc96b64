#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/tcp/link.hpp>
#include <sinew/transports/tcp/outgoing.hpp>
#include <sinew/transports/tcp/peer_address.hpp>
#include <sinew/transports/tcp/shared.hpp>

namespace sinew::tcp {

/// The messages to and from one peer. It passes what the link's frames say on to the matcher.
class TcpEndpoint final : public Endpoint, MatcherWire, LinkOwner {
 public:
  TcpEndpoint(Shared& shared, PeerAddress peer);
  ~TcpEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override;
  bool has_unexpected(Tag tag) const noexcept override { return matcher_.has_unexpected(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& quiet) override;

  Link& link() noexcept { return link_; }
  bool closed() const noexcept { return !end_.ok(); }

 private:
  // MatcherWire
  void grant(std::uint64_t id, Completion& receive) override;
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;
  // LinkOwner
  bool has_messages() const override { return sends_.count() + incoming_.count() != 0; }
  void lost(const Status& reason) override;
  void control_frame(const FrameHeader& header, const std::byte* payload) override;
  void eager_written(Completion& send) override { finish(send, {}); }
  void data_written(Completion& send) override;
  Incoming* incoming(std::uint32_t number) override { return incoming_.find(number); }
  void arrived(Incoming& in, std::size_t at, const std::byte* data, std::size_t bytes) override;
  void ended(std::uint32_t number) override;

  void cleared(const FrameHeader& clear);
  void refused(std::uint32_t number, Code why, std::uint64_t expected);
  void withdrawn(std::uint32_t number);
  void aborted(std::uint32_t number, std::uint64_t bytes);
  void forget(std::uint32_t number, std::uint32_t receiver);
  bool cancel_send(Completion& done);
  bool cancel_arriving(Completion& receive);
  void finish(Completion& send, Status status) { shared_.finished.add(send, std::move(status)); }
  void end_everything(const Status& reason);

  Shared& shared_;
  const PeerAddress peer_;
  Matcher matcher_;
  Link link_;
  CreditWindow credit_;
  OwedCredit owed_credit_;
  SlotTable<Completion> sends_;  // by rendezvous, until they are finished
  SlotTable<Incoming> incoming_;
  std::deque<Incoming> records_;
  std::vector<Incoming*> free_records_;
  Status end_{};
};

}  // namespace sinew::tcp
