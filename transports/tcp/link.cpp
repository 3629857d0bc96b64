// The life of an endpoint's connections.
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/endpoint.hpp>

namespace sinew::tcp {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kRailRounds = 2;  // of connecting to a rail where no kernel answers

}  // namespace

void TcpEndpoint::dial() {
  for (Port& p : ports_) {
    if (!p.socket && !p.dialer && end_.ok()) dial(p);
  }
}

void TcpEndpoint::dial(Port& p) {
  const ChannelClaim channel{p.channel, p.epoch};
  const AuthClaim claim{kService, shared_.self.rank, peer_.rank, channel.encode(), peer_.instance};
  const int rounds = has_rails() && p.data ? kRailRounds : Dialer::kForever;
  p.dialer.emplace(shared_.poller, paths_of(p), shared_.keys, claim, rounds,
                   Dialer::Events{[this, channel](Socket socket) { attach(channel, std::move(socket)); },
                                  [this, &p](const Status& why) { hopeless(p, why); }});
  p.dialer->start();
}

bool TcpEndpoint::wants(ChannelClaim claim) {
  if (!end_.ok() || claim.channel >= ports_.size()) return false;
  Port& p = ports_[claim.channel];
  // The peer may know before this side that a connection has ended.
  const bool replaces = has_rails() && claim.channel == kControl && claim.epoch > p.epoch;
  if (p.lost || (p.socket && !replaces)) return false;
  // What went into a rail's first connection may not have come: that is found out once both sides have given it up.
  if (p.data && p.ended && p.data->has_written()) return false;
  // Both sides dial: the lower rank's connection is the one, so that both decide alike. Before it has proved itself the
  // peer cannot have taken it, and it may lead nowhere while the peer's has come; nor is it the one any more where the
  // peer has lost it.
  if (!replaces && p.dialer && p.dialer->has_proven() && shared_.self.rank < peer_.rank) return false;
  p.dialer.reset();
  disconnect(p);
  return true;
}

void TcpEndpoint::attach(ChannelClaim claim, Socket socket) {
  Port& p = ports_[claim.channel];
  const int descriptor = socket.get();
  p.where = peer_text(descriptor);
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

void TcpEndpoint::control(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  const bool idle = !control_.waiting();
  control_.push(header, payload, done);
  if (idle) write_control();
  if (has_rails()) watch_rails();
}

void TcpEndpoint::write_control() {
  Port& p = ports_[kControl];
  if (!p.socket) return;
  // A connection that cannot be written may still have something to be read: reading will find its end.
  const ChannelState state = control_.write();
  want_write(p, state == ChannelState::Open && control_.waiting());
}

/// A frame to each rail that takes one, and again: each gets what it can carry.
void TcpEndpoint::deal() {
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

void TcpEndpoint::want_write(Port& p, bool wants) {
  if (wants != p.wants_write) shared_.poller.want_write(p.socket.get(), p, wants);
  p.wants_write = wants;
}

void TcpEndpoint::ready(Port& p, bool readable, bool writable) {
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
void TcpEndpoint::channel_ended(Port& p) {
  if (has_rails()) return rail_event(p, p.data ? p.data->error() : control_.error());
  if (const std::string trouble = p.socket.trouble(); !trouble.empty()) return lose("cannot be understood: " + trouble);
  shared_.poller.remove(p.socket.get(), p);
  p.ended = true;
  const bool all = std::ranges::all_of(ports_, [](const Port& q) { return q.ended || !q.socket; });
  if (all) return lose("closed the connection");
  patience_ = Clock::now() + kPatience;
  shared_.poller.add_timed(*this);
}

void TcpEndpoint::tick(Clock::time_point now) {
  if (now >= patience_) return lose(has_rails() ? "has no rail left" : "closed one of its two connections");
  if (has_rails()) look_at_rails(now);
}

void TcpEndpoint::lose(const std::string& how, Code code) {
  if (!end_.ok()) return;
  std::string where;
  for (const Port& p : ports_) {
    if (where.empty() && !p.where.empty()) where = fmt::format(" ({})", p.where);
  }
  log::debug("tcp: rank {} {}", peer_.rank, how);
  end_everything({code, fmt::format("rank {}{} {}", peer_.rank, where, how), code == Code::PeerLost ? peer_.rank : -1});
  hang_up(false);
}

void TcpEndpoint::end_everything(const Status& reason) {
  end_ = reason;
  const auto end_send = [&](Completion& c) { finish(c, reason); };
  control_.detach(end_send);
  for (Port& p : ports_) {
    if (p.data) p.data->attach(nullptr);
  }
  outgoing_.clear();
  sends_.for_each([&](Completion& c, std::uint32_t key) {
    sends_.erase(key);
    finish(c, reason);
  });
  incoming_.for_each([&](Incoming& in, std::uint32_t key) {
    incoming_.erase(key);
    free_records_.push_back(&in);
    if (in.receive != nullptr) matcher_.fail(*in.receive, reason);
  });
  reason.code() == Code::Cancelled ? matcher_.close(reason) : matcher_.fail(reason);
}

void TcpEndpoint::hang_up(bool politely) {
  shared_.poller.remove_timed(*this);
  watching_ = false;
  for (Port& p : ports_) {
    p.dialer.reset();
    if (!p.socket) continue;
    if (!p.ended) shared_.poller.remove(p.socket.get(), p);
    if (politely && !p.ended) {
      shared_.farewells.add(std::move(p.socket));
    } else {
      p.socket = Socket();
    }
  }
}

}  // namespace sinew::tcp
