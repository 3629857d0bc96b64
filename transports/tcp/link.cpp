#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/transports/tcp/link.hpp>
#include <sinew/transports/tcp/redial.hpp>

namespace sinew::tcp {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kRailRounds = 2;  // of connecting to a rail where no kernel answers
/// The time for which a rank tries to reach a peer for the first time. There is no limit for a connection that breaks.
constexpr auto kFirstPatience = std::chrono::seconds(20);
/// A peer that leaves or dies ends all connections, but not at one moment.
constexpr auto kGrace = std::chrono::milliseconds(200);
constexpr auto kLastRail = std::chrono::seconds(1);
constexpr auto kLookEvery = std::chrono::milliseconds(500);

}  // namespace

Link::Link(Shared& shared, const PeerAddress& peer, LinkOwner& owner)
    : shared_(shared), peer_(peer), owner_(owner), rails_(rails_between(shared.self, peer)), control_(owner) {
  for (Channel c = 0; c <= std::max<std::size_t>(rails_.size(), 1); ++c) {
    Port& p = ports_.emplace_back();
    p.link = this;
    p.channel = c;
    if (c != kControl) p.data = std::make_unique<DataChannel>(owner, outgoing_, has_rails());
    if (c != kControl && has_rails()) p.path = rails_[c - 1U];
  }
  if (has_rails()) {
    control_.outlive_connections();
    outgoing_.set_rails(rails_.size());
  }
}

void Link::dial() {
  for (Port& p : ports_) {
    if (!p.socket && !p.connecting && !ended_) dial(p);
  }
}

void Link::dial(Port& p) {
  const ChannelClaim channel{p.channel, p.epoch};
  const AuthClaim claim{kService, shared_.self.rank, peer_.rank, channel.encode(), peer_.instance};
  std::vector<Path> paths = paths_of(p);
  const auto first_rounds = std::max<std::ptrdiff_t>(kFirstPatience / (Dialer::kConnectWithin * std::ssize(paths)), 1);
  const int rounds = has_rails() && p.data ? kRailRounds
                     : p.where.empty()     ? static_cast<int>(first_rounds)
                                           : Redial::kForever;
  p.connecting.emplace(*shared_.thread, shared_.mailbox, std::move(paths), shared_.keys, claim, rounds,
                       Connecting::Events{[this, channel](Socket socket) { attach(channel, std::move(socket)); },
                                          [this, &p](const Status& why) { hopeless(p, why); }});
}

bool Link::wants(ChannelClaim claim) {
  if (ended_ || claim.channel >= ports_.size()) return false;
  Port& p = ports_[claim.channel];
  // The peer may know before this side that a connection has ended.
  const bool replaces = has_rails() && claim.channel == kControl && claim.epoch > p.epoch;
  if (p.lost || (p.socket && !replaces)) return false;
  // What went into a rail's first connection may not have come: that is found out once both sides have given it up.
  if (p.data && p.ended && p.data->has_written()) return false;
  // Both sides connect. They keep the lower rank's connection, so that both decide alike. There are two exceptions.
  // Until this side has sent its proof, the peer cannot have taken this side's connection, which may never succeed. So
  // this side withdraws it and takes the peer's. The other exception is a peer that has lost this side's connection.
  if (!replaces && p.connecting && shared_.self.rank < peer_.rank && !p.connecting->withdraw()) return false;
  p.connecting.reset();
  disconnect(p);
  return true;
}

void Link::attach(ChannelClaim claim, Socket socket) {
  Port& p = ports_[claim.channel];
  const int descriptor = socket.get();
  p.where = peer_address(descriptor).text();
  p.socket = std::move(socket);
  p.socket.read_ahead();
  p.epoch = claim.epoch;
  p.ended = false;
  if (const int error = shared_.poller.add(descriptor, p, false); error != 0) {
    p.ended = true;
    return lose("cannot be watched: " + std::generic_category().message(error), Code::System);
  }
  if (has_rails()) {
    prepare(p);
    watch_rails();  // the consent may not reach the peer
  }
  if (p.data) {
    p.data->attach(&p.socket);
    deal();
  } else {
    control_.attach(&p.socket);
    write_control();
  }
}

void Link::control(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  const bool idle = !control_.waiting();
  control_.push(header, payload, done);
  if (idle) write_control();
  if (has_rails()) watch_rails();
}

void Link::write_control() {
  Port& p = ports_[kControl];
  if (!p.socket) return;
  // A connection that cannot be written may still have something to be read: reading will find its end.
  const ChannelState state = control_.write();
  want_write(p, state == ChannelState::Open && control_.waiting());
}

void Link::stream(Completion& send) {
  outgoing_.push(send);
  deal();
}

std::optional<std::size_t> Link::stop_streaming(Completion& send) {
  for (Port& p : ports_) {
    if (p.data) p.data->let_go(send);
  }
  return outgoing_.remove(send);
}

void Link::forget(std::uint32_t receiver) {
  for (Port& p : ports_) {
    if (p.data) p.data->forget(receiver);
  }
}

/// A frame to each rail that takes one, and again: each gets what it can carry.
void Link::deal() {
  for (bool more = true; more;) {
    more = false;
    for (Port& p : ports_) {
      if (p.data && !p.wants_write && p.data->write_frame() && !outgoing_.empty()) more = true;
    }
  }
  for (Port& p : ports_) {
    if (p.data && p.socket) want_write(p, p.data->waiting());
  }
}

void Link::want_write(Port& p, bool wants) {
  if (wants != p.wants_write) shared_.poller.want_write(p.socket.get(), p, wants);
  p.wants_write = wants;
}

void Link::ready(Port& p, bool readable, bool writable) {
  if (readable) {
    const ChannelState state = p.data ? p.data->read(shared_.scratch) : control_.read(shared_.scratch);
    if (state == ChannelState::Ended) return channel_ended(p);
    if (!p.data && !p.wants_write && control_.waiting()) write_control();
  }
  if (!writable) return;
  if (!p.data) return write_control();
  while (p.data->write_frame()) {
  }
  want_write(p, p.data->waiting());
}

/// The other connection is given time to end by itself: it may hold the peer's last messages.
void Link::channel_ended(Port& p) {
  if (has_rails()) return rail_event(p, p.data ? p.data->error() : control_.error());
  if (const std::string trouble = p.socket.trouble(); !trouble.empty()) return lose("cannot be understood: " + trouble);
  shared_.poller.remove(p.socket.get(), p);
  p.ended = true;
  const bool all = std::ranges::all_of(ports_, [](const Port& q) { return q.ended || !q.socket; });
  if (all) return lose("closed the connection");
  patience_ = Clock::now() + kPatience;
  shared_.poller.add_timed(*this);
}

void Link::tick(Clock::time_point now) {
  if (now >= patience_) return lose(has_rails() ? "has no rail left" : "closed one of its two connections");
  if (has_rails()) look_at_rails(now);
}

void Link::lose(const std::string& how, Code code) {
  if (ended_) return;
  std::string where;
  for (const Port& p : ports_) {
    if (where.empty() && !p.where.empty()) where = fmt::format(" ({})", p.where);
  }
  log::debug("tcp: rank {} {}", peer_.rank, how);
  owner_.lost({code, fmt::format("rank {}{} {}", peer_.rank, where, how), code == Code::PeerLost ? peer_.rank : -1});
  hang_up(false);
}

void Link::end(const std::function<void(Completion&)>& visit) {
  ended_ = true;
  control_.detach(visit);
  for (Port& p : ports_) {
    if (p.data) p.data->attach(nullptr);
  }
  outgoing_.clear();
}

void Link::hang_up(bool politely) {
  shared_.poller.remove_timed(*this);
  watching_ = false;
  for (Port& p : ports_) {
    p.connecting.reset();
    if (!p.socket) continue;
    if (!p.ended) shared_.poller.remove(p.socket.get(), p);
    if (politely && !p.ended) {
      shared_.farewells.add(std::move(p.socket));
    } else {
      p.socket = Socket();
    }
  }
}

std::vector<Path> Link::paths_of(const Port& p) const {
  std::vector<Path> paths;
  if (!has_rails()) {
    for (const SocketAddress& a : routes_to(peer_, shared_.self).candidates) paths.push_back({a});
  } else if (p.data) {
    paths.push_back({p.path->there.address, p.path->here.address});
  } else {
    for (const bool sure : {true, false}) {  // those that work first
      for (const Port& rail : ports_) {
        const bool works = rail.data && rail.socket;
        if (rail.data && !rail.lost && works == sure) {
          paths.push_back({rail.path->there.address, rail.path->here.address});
        }
      }
    }
  }
  return paths;
}

void Link::prepare(Port& p) {
  p.due = Clock::time_point::max();
  p.unreachable = false;
  p.why.clear();
  keep_alive(p.socket.get(), true);
  if (p.data) return queue_little(p.socket.get());
  const std::string here = own_address(p.socket.get()).text();
  for (const RailPath& r : rails_) {
    if (here.starts_with(r.here.address.text().substr(0, r.here.address.text().rfind(':') + 1))) p.path = r;
  }
}

void Link::hopeless(Port& p, const Status& why) {
  if (!has_rails() || !p.data)
    return lose(
        fmt::format("cannot be reached by rank {}: {}; does a firewall or a route stop connections between these "
                    "hosts? sinew-info doctor tries all ways",
                    shared_.self.rank, why.message()),
        why.code());
  p.ended = true;
  p.why = why.message();
  p.due = Clock::now();
  watch_rails();
}

void Link::rail_event(Port& p, int error) {
  disconnect(p);
  p.ended = true;
  p.unreachable = !is_by_peer(error);
  p.why = error == 0 ? "the peer has closed it" : std::generic_category().message(error);
  p.due = Clock::now() + (p.unreachable ? Clock::duration{} : Clock::duration(kGrace));
  log::debug("tcp: connection {} of rank {} ({}) has ended: {}", p.channel, peer_.rank, p.where, p.why);
  if (std::ranges::none_of(
          ports_, [](const Port& q) { return q.socket || (q.data && q.connecting && q.connecting->active()); })) {
    return lose("closed the connection");
  }
  watch_rails();
}

void Link::disconnect(Port& p) {
  if (!p.socket) return;
  shared_.poller.remove(p.socket.get(), p);
  p.socket = Socket();
  p.wants_write = false;
  p.data ? p.data->attach(nullptr) : control_.pause();
}

void Link::lose_rail(Port& p) {
  p.lost = true;
  disconnect(p);
  p.connecting.reset();
  const auto left = std::ranges::count_if(ports_, [](const Port& q) { return q.data && !q.lost; });
  log::warning("tcp: the rail from {} to {} of rank {} is lost: {}; {} of {} left", p.path->here.text(),
               p.path->there.text(), peer_.rank, p.why, left, rails_.size());
  const Received here = p.data->stop();
  control({.kind = FrameKind::RailLost, .id = p.channel, .note = here.frames, .bytes = here.bytes});
  if (left == 0) patience_ = Clock::now() + kLastRail;
  send_again(p);
}

void Link::rail_lost_there(Channel channel, const Received& there) {
  if (channel == kControl || channel >= ports_.size()) return;
  Port& p = ports_[channel];
  p.peer_has = there;
  if (p.lost) return send_again(p);
  if (p.why.empty()) p.why = "the peer has lost it";
  lose_rail(p);
}

/// Once both sides have given the rail up.
void Link::send_again(Port& p) {
  if (!p.peer_has) return;
  for (const Piece& piece : p.data->take_missing(*p.peer_has)) {
    if (piece.send != nullptr) {
      outgoing_.push_again(piece);
    } else {
      control({.kind = FrameKind::Abort, .id = piece.receiver, .bytes = piece.bytes});
    }
  }
  p.peer_has.reset();
  deal();
}

void Link::redial_control() {
  Port& c = ports_[kControl];
  disconnect(c);
  c.ended = false;
  c.due = Clock::time_point::max();
  ++c.epoch;
  dial(c);
}

void Link::watch_rails() {
  if (!std::exchange(watching_, true)) shared_.poller.add_timed(*this);
}

void Link::look_at_rails(Clock::time_point now) {
  if (now - looked_ >= kLookEvery) {
    looked_ = now;
    for (Port& p : ports_) {
      const auto is_other = [&p](const Port& q) { return q.data && q.socket && &q != &p; };
      if (!p.socket || !is_silent(p.socket.get()) || std::ranges::none_of(ports_, is_other)) continue;
      rail_event(p, ETIMEDOUT);
      if (ended_) return;
    }
  }
  Port& c = ports_[kControl];
  for (Port& p : ports_) {
    if (!p.data || p.lost || !p.ended || now < p.due) continue;
    // What has taken a rail has taken the control connection beside it, too.
    const bool shared = c.socket && c.path->here.interface == p.path->here.interface;
    if (p.unreachable && shared) rail_event(c, ETIMEDOUT);
    if (ended_) return;
    if (control_.runs() || p.unreachable) lose_rail(p);
  }
  if (c.ended && now >= c.due && patience_ == Clock::time_point::max()) redial_control();
  if (is_quiet()) {
    watching_ = false;
    shared_.poller.remove_timed(*this);
  }
}

bool Link::is_quiet() const {
  const bool busy = owner_.has_messages() || patience_ != Clock::time_point::max();
  const bool unsettled = std::ranges::any_of(ports_, [](const Port& p) { return p.ended && !p.lost; });
  return !busy && !unsettled && control_.runs() && !is_outstanding(ports_[kControl].socket.get());
}

}  // namespace sinew::tcp
