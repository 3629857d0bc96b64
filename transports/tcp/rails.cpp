// Of a pair with several rails: what happens when one of its connections ends. The stream of control frames goes on
// over another connection; a rail that has ended is given up by both sides, each tells the other what it has of it, and
// what is missing is sent again by the others.
#include <algorithm>
#include <cerrno>
#include <system_error>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/endpoint.hpp>

namespace sinew::tcp {
namespace {

/// A peer that leaves or dies ends all connections, but not at one moment.
constexpr auto kGrace = std::chrono::milliseconds(200);
constexpr auto kLastRail = std::chrono::seconds(1);
constexpr auto kLookEvery = std::chrono::milliseconds(500);

}  // namespace

std::vector<Path> TcpEndpoint::paths_of(const Port& p) const {
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

void TcpEndpoint::prepare(Port& p) {
  p.due = Clock::time_point::max();
  p.unreachable = false;
  p.why.clear();
  keep_alive(p.socket.get());
  if (p.data) return queue_little(p.socket.get());
  const std::string here = own_text(p.socket.get());
  for (const RailPath& r : rails_) {
    if (here.starts_with(r.here.address.text().substr(0, r.here.address.text().rfind(':') + 1))) p.path = r;
  }
}

void TcpEndpoint::hopeless(Port& p, const Status& why) {
  if (!has_rails() || !p.data) return lose(fmt::format("cannot be reached: {}", why.message()), why.code());
  p.ended = true;
  p.why = why.message();
  p.due = Clock::now();
  watch_rails();
}

void TcpEndpoint::rail_event(Port& p, int error) {
  disconnect(p);
  p.ended = true;
  p.unreachable = !is_by_peer(error);
  p.why = error == 0 ? "the peer has closed it" : std::generic_category().message(error);
  p.due = Clock::now() + (p.unreachable ? Clock::duration{} : Clock::duration(kGrace));
  log::debug("tcp: connection {} of rank {} ({}) has ended: {}", p.channel, peer_.rank, p.where, p.why);
  if (std::ranges::none_of(ports_,
                           [](const Port& q) { return q.socket || (q.data && q.dialer && q.dialer->active()); })) {
    return lose("closed the connection");
  }
  watch_rails();
}

void TcpEndpoint::disconnect(Port& p) {
  if (!p.socket) return;
  shared_.poller.remove(p.socket.get(), p);
  p.socket = Socket();
  p.wants_write = false;
  p.data ? p.data->attach(nullptr) : control_.pause();
}

void TcpEndpoint::lose_rail(Port& p) {
  p.lost = true;
  disconnect(p);
  p.dialer.reset();
  const auto left = std::ranges::count_if(ports_, [](const Port& q) { return q.data && !q.lost; });
  log::warning("tcp: the rail from {} to {} of rank {} is lost: {}; {} of {} left", p.path->here.text(),
               p.path->there.text(), peer_.rank, p.why, left, rails_.size());
  const Received here = p.data->stop();
  control({.kind = FrameKind::RailLost, .id = p.channel, .note = here.frames, .bytes = here.bytes});
  if (left == 0) patience_ = Clock::now() + kLastRail;
  send_again(p);
}

void TcpEndpoint::rail_lost_there(Channel channel, const Received& there) {
  if (channel == kControl || channel >= ports_.size()) return;
  Port& p = ports_[channel];
  p.peer_has = there;
  if (p.lost) return send_again(p);
  if (p.why.empty()) p.why = "the peer has lost it";
  lose_rail(p);
}

/// Once both sides have given the rail up.
void TcpEndpoint::send_again(Port& p) {
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

void TcpEndpoint::redial_control() {
  Port& c = ports_[kControl];
  disconnect(c);
  c.ended = false;
  c.due = Clock::time_point::max();
  ++c.epoch;
  dial(c);
}

void TcpEndpoint::watch_rails() {
  if (!std::exchange(watching_, true)) shared_.poller.add_timed(*this);
}

void TcpEndpoint::look_at_rails(Clock::time_point now) {
  if (now - looked_ >= kLookEvery) {
    looked_ = now;
    for (Port& p : ports_) {
      const auto is_other = [&p](const Port& q) { return q.data && q.socket && &q != &p; };
      if (!p.socket || !is_silent(p.socket.get()) || std::ranges::none_of(ports_, is_other)) continue;
      rail_event(p, ETIMEDOUT);
      if (!end_.ok()) return;
    }
  }
  Port& c = ports_[kControl];
  for (Port& p : ports_) {
    if (!p.data || p.lost || !p.ended || now < p.due) continue;
    // What has taken a rail has taken the control connection beside it, too.
    const bool shared = c.socket && c.path->here.interface == p.path->here.interface;
    if (p.unreachable && shared) rail_event(c, ETIMEDOUT);
    if (!end_.ok()) return;
    if (control_.runs() || p.unreachable) lose_rail(p);
  }
  if (c.ended && now >= c.due && patience_ == Clock::time_point::max()) redial_control();
  if (is_quiet()) {
    watching_ = false;
    shared_.poller.remove_timed(*this);
  }
}

bool TcpEndpoint::is_quiet() const {
  const bool busy = sends_.count() + incoming_.count() != 0 || patience_ != Clock::time_point::max();
  const bool unsettled = std::ranges::any_of(ports_, [](const Port& p) { return p.ended && !p.lost; });
  return !busy && !unsettled && control_.runs() && !is_outstanding(ports_[kControl].socket.get());
}

}  // namespace sinew::tcp
