#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sinew/transports/tcp/addresses/peer_address.hpp>
#include <sinew/transports/tcp/addresses/rail_path.hpp>
#include <sinew/transports/tcp/connecting.hpp>
#include <sinew/transports/tcp/control_channel.hpp>
#include <sinew/transports/tcp/data_channel.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/outgoing.hpp>
#include <sinew/transports/tcp/poller.hpp>
#include <sinew/transports/tcp/shared.hpp>

namespace sinew::tcp {

/// What a link asks and tells its endpoint.
class LinkOwner : public ControlEvents, public DataEvents {
 public:
  /// Messages by rendezvous have not ended.
  virtual bool has_messages() const = 0;
  /// The link cannot go on. The endpoint calls Link::end().
  virtual void lost(const Status& reason) = 0;

 protected:
  ~LinkOwner() = default;
};

/// The connections to one peer: one for control frames, and one for data on each rail. A link makes them, writes and
/// reads frames, and finds out when the peer is lost.
/// Of a pair with one rail, the end of a connection is the end of the link.
/// Of a pair with several rails, the stream of control frames goes on over another connection. Both sides give up a
/// rail that has ended. Each tells the other what it has of the rail's frames, and what is missing is sent again over
/// the other rails.
class Link final : Timed {
 public:
  Link(Shared& shared, const PeerAddress& peer, LinkOwner& owner);

  bool has_rails() const noexcept { return !rails_.empty(); }

  // Making connections.
  /// Makes the connections that are not there.
  void dial();
  /// Whether this side takes a connection that the peer has made. It does not if it has made, or will make, its own.
  bool wants(ChannelClaim claim);
  void attach(ChannelClaim claim, Socket socket);

  // Sending.
  void control(const FrameHeader& header, ConstBuffer payload = {}, Completion* done = nullptr);
  /// Sends the bytes of a message that the peer has cleared.
  void stream(Completion& send);
  /// As ControlChannel::take_back.
  bool take_back(Completion& eager) { return control_.take_back(eager); }
  /// Stops streaming; from the return the message's buffer is not touched. Returns as Outgoing::remove.
  std::optional<std::size_t> stop_streaming(Completion& send);
  /// The message with this number at the receiver has arrived.
  void forget(std::uint32_t receiver);
  /// The peer has lost a rail, over which it has received so much.
  void rail_lost_there(Channel channel, const Received& there);

  // Ending.
  /// Sends nothing any more: visit(completion) is called for the eager messages that have not left.
  void end(const std::function<void(Completion&)>& visit);
  /// Closes all connections. `politely`: the kernel still sends the bytes that it has accepted.
  void hang_up(bool politely);

 private:
  struct Port final : Handler {
    Link* link = nullptr;
    Channel channel = kControl;
    std::unique_ptr<DataChannel> data;  // of control: none
    Socket socket;
    std::string where;  // the other end
    bool wants_write = false;
    bool ended = false;
    std::optional<Connecting> connecting;

    // Of a pair with several rails.
    std::optional<RailPath> path;                      // of control: what it runs over now
    std::uint32_t epoch = 0;                           // connections that this channel has lost
    std::string why;                                   // it ended
    Clock::time_point due = Clock::time_point::max();  // ended by the peer: what that means is known then
    bool unreachable = false;                          // ended by the kernel here, not by the peer
    bool lost = false;                                 // a rail that is used no more
    std::optional<Received> peer_has;                  // what has come there of a lost rail

    void ready(bool readable, bool writable) override { link->ready(*this, readable, writable); }
  };

  void tick(Clock::time_point now) override;
  void dial(Port& port);
  void ready(Port& port, bool readable, bool writable);
  void write_control();
  void deal();
  void want_write(Port& port, bool wants);
  void channel_ended(Port& port);
  /// `code`: PeerLost, or System where this side cannot go on.
  void lose(const std::string& how, Code code = Code::PeerLost);

  std::vector<Path> paths_of(const Port& port) const;
  void hopeless(Port& port, const Status& why);
  void disconnect(Port& port);

  // Of a pair with several rails.
  void rail_event(Port& port, int error);
  void prepare(Port& port);
  void lose_rail(Port& port);
  void send_again(Port& port);
  void redial_control();
  void watch_rails();
  void look_at_rails(Clock::time_point now);
  bool is_quiet() const;

  Shared& shared_;
  const PeerAddress& peer_;
  LinkOwner& owner_;
  const std::vector<RailPath> rails_;  // empty: one, by what routing reaches
  ControlChannel control_;
  Outgoing outgoing_;
  std::deque<Port> ports_;  // control, and one of each rail
  bool ended_ = false;
  Clock::time_point patience_ = Clock::time_point::max();  // one channel has ended: the other may until then
  Clock::time_point looked_{};                             // at whether the rails are silent
  bool watching_ = false;
};

}  // namespace sinew::tcp
