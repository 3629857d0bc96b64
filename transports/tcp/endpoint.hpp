#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sinew/core/base/slot_table.hpp>
#include <sinew/core/matcher.hpp>
#include <sinew/core/transport/credit_window.hpp>
#include <sinew/transports/tcp/control_channel.hpp>
#include <sinew/transports/tcp/data_channel.hpp>
#include <sinew/transports/tcp/dialer.hpp>
#include <sinew/transports/tcp/farewell.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/outgoing.hpp>
#include <sinew/transports/tcp/peer_address.hpp>
#include <sinew/transports/tcp/poller.hpp>
#include <sinew/transports/tcp/rail_path.hpp>
#include <sinew/transports/tcp/tcp.hpp>

namespace sinew::tcp {

/// What the endpoints of one transport share.
struct Shared {
  Options options;
  Keys keys;
  PeerAddress self;
  Poller poller;
  BlockPool pool;
  FinishedOperations finished;
  std::size_t pending = 0;         // operations begun and not fired
  std::vector<std::byte> scratch;  // what is read and not kept across calls
  Farewells farewells{poller};
  std::map<int, class TcpEndpoint*> peers;
  std::set<int> left;  // ranks whose endpoint was closed and not connected again
};

/// The connections to one peer: what they carry meets the matcher here.
class TcpEndpoint final : public Endpoint, MatcherWire, ControlEvents, DataEvents, Timed {
 public:
  TcpEndpoint(Shared& shared, PeerAddress peer);
  ~TcpEndpoint() override;

  void send(ConstBuffer from, Tag tag, std::uint64_t note, Completion& done) override;
  void recv(Sink to, Tag tag, Completion& done) override;
  bool holds(Tag tag) const noexcept override { return matcher_.holds(tag); }
  bool cancel(Completion& done) override;
  void close(Completion& quiet) override;

  /// Whether a connection the peer has made is the one: not where this side's own is, or will be.
  bool wants(ChannelClaim claim);
  bool closed() const noexcept { return !end_.ok(); }
  void attach(ChannelClaim claim, Socket socket);
  /// Makes the connections that are not there.
  void dial();

 private:
  struct Port final : Handler {
    TcpEndpoint* endpoint = nullptr;
    Channel channel = kControl;
    std::unique_ptr<DataChannel> data;  // of control: none
    Socket socket;
    std::string where;  // the other end
    bool wants_write = false;
    bool ended = false;
    std::optional<Dialer> dialer;

    // Of a pair with several rails.
    std::optional<RailPath> path;                      // of control: what it runs over now
    std::uint32_t epoch = 0;                           // connections that this channel has lost
    std::string why;                                   // it ended
    Clock::time_point due = Clock::time_point::max();  // ended by the peer: what that means is known then
    bool unreachable = false;                          // ended by the kernel here, not by the peer
    bool lost = false;                                 // a rail that is used no more
    std::optional<Received> peer_has;                  // what has come there of a lost rail

    void ready(bool readable, bool writable) override { endpoint->ready(*this, readable, writable); }
  };

  // MatcherWire
  void grant(std::uint64_t id, Completion& receive) override;
  void refuse(std::uint64_t id, Code why, std::uint64_t note) override;
  void return_credit(std::size_t charge) override;
  // ControlEvents, DataEvents
  void control_frame(const FrameHeader& header, const std::byte* payload) override;
  void eager_written(Completion& send) override { finish(send, {}); }
  void data_written(Completion& send) override;
  Incoming* incoming(std::uint32_t number) override { return incoming_.find(number); }
  void arrived(Incoming& in, std::size_t at, const std::byte* data, std::size_t bytes) override;
  void ended(std::uint32_t number) override;
  void tick(Clock::time_point now) override;

  void dial(Port& port);
  void ready(Port& port, bool readable, bool writable);
  void write_control();
  void deal();
  void want_write(Port& port, bool wants);
  void channel_ended(Port& port);
  /// `code`: PeerLost, or System where this side cannot go on.
  void lose(const std::string& how, Code code = Code::PeerLost);
  void end_everything(const Status& reason);
  void hang_up(bool politely);

  void control(const FrameHeader& header, ConstBuffer payload = {}, Completion* done = nullptr);
  void cleared(const FrameHeader& clear);
  void refused(std::uint32_t number, Code why, std::uint64_t expected);
  void withdrawn(std::uint32_t number);
  void aborted(std::uint32_t number, std::uint64_t bytes);
  void forget(std::uint32_t number, std::uint32_t receiver);
  bool cancel_send(Completion& done);
  bool cancel_arriving(Completion& receive);
  void finish(Completion& send, Status status) { shared_.finished.add(send, std::move(status)); }

  // What several rails need (rails.cpp).
  bool has_rails() const noexcept { return !rails_.empty(); }
  std::vector<Path> paths_of(const Port& port) const;
  void hopeless(Port& port, const Status& why);
  void rail_event(Port& port, int error);
  void prepare(Port& port);
  void disconnect(Port& port);
  void lose_rail(Port& port);
  void rail_lost_there(Channel channel, const Received& there);
  void send_again(Port& port);
  void redial_control();
  void watch_rails();
  void look_at_rails(Clock::time_point now);
  bool is_quiet() const;

  Shared& shared_;
  const PeerAddress peer_;
  const std::vector<RailPath> rails_;  // empty: one, by what routing reaches
  Matcher matcher_;
  ControlChannel control_{*this};
  Outgoing outgoing_;
  std::deque<Port> ports_;  // control, and one of each rail
  CreditWindow credit_;
  OwedCredit owed_credit_;
  SlotTable<Completion> sends_;  // by rendezvous, until they are finished
  SlotTable<Incoming> incoming_;
  std::deque<Incoming> records_;
  std::vector<Incoming*> free_records_;
  Status end_{};
  Clock::time_point patience_ = Clock::time_point::max();  // one channel has ended: the other may until then
  Clock::time_point looked_{};                             // at whether the rails are silent
  bool watching_ = false;
};

}  // namespace sinew::tcp
