// The life of an endpoint's two connections.
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

}  // namespace

void TcpEndpoint::dial() {
  const Routes routes = routes_to(peer_, shared_.self);
  for (Port& p : ports_) {
    if (p.socket || p.dialer || !end_.ok()) continue;
    const AuthClaim claim{kService, shared_.self.rank, peer_.rank, static_cast<std::uint32_t>(p.channel),
                          peer_.instance};
    p.dialer.emplace(shared_.poller, routes.candidates, shared_.options.secret, claim,
                     Dialer::Events{[this, &p](FileDescriptor socket) { attach(p.channel, std::move(socket)); },
                                    [this](const std::string& why) { lose("cannot be reached: " + why); }});
    p.dialer->start();
  }
}

bool TcpEndpoint::wants(Channel channel) {
  Port& p = port(channel);
  if (!end_.ok() || p.socket) return false;
  // Both sides dial: the lower rank's connection is the one, so that both decide alike.
  if (p.dialer && p.dialer->active() && shared_.self.rank < peer_.rank) return false;
  p.dialer.reset();
  return true;
}

void TcpEndpoint::attach(Channel channel, FileDescriptor socket) {
  Port& p = port(channel);
  p.where = peer_text(socket.get());
  p.socket = std::move(socket);
  if (const int error = shared_.poller.add(p.socket.get(), p, false); error != 0) {
    p.ended = true;
    return lose("cannot be watched: " + std::generic_category().message(error));
  }
  channel == Channel::Control ? control_.attach(p.socket.get()) : data_.attach(p.socket.get());
  write(p);
}

void TcpEndpoint::control(const FrameHeader& header, ConstBuffer payload, Completion* done) {
  const bool idle = !control_.waiting();
  control_.push(header, payload, done);
  if (idle) write(port(Channel::Control));
}

void TcpEndpoint::write(Port& p) {
  if (!p.socket) return;
  const bool of_control = p.channel == Channel::Control;
  const ChannelState state = of_control ? control_.write() : data_.write();
  // A connection that cannot be written may still have something to be read: reading will find its end.
  const bool waits = state == ChannelState::Open && (of_control ? control_.waiting() : data_.waiting());
  if (waits != p.wants_write) shared_.poller.want_write(p.socket.get(), p, waits);
  p.wants_write = waits;
}

void TcpEndpoint::ready(Port& p, bool readable, bool writable) {
  if (readable) {
    const bool of_control = p.channel == Channel::Control;
    const ChannelState state = of_control ? control_.read(shared_.scratch) : data_.read(shared_.scratch);
    if (state == ChannelState::Ended) return channel_ended(p);
  }
  if (writable) write(p);
}

/// The other connection is given time to end by itself: it may hold the peer's last messages.
void TcpEndpoint::channel_ended(Port& p) {
  shared_.poller.remove(p.socket.get(), p);
  p.ended = true;
  const bool all = std::ranges::all_of(ports_, [](const Port& q) { return q.ended || !q.socket; });
  if (all) return lose("closed the connection");
  patience_ = Clock::now() + kPatience;
  shared_.poller.add_timed(*this);
}

void TcpEndpoint::tick(Clock::time_point now) {
  if (now >= patience_) lose("closed one of its two connections");
}

void TcpEndpoint::lose(const std::string& how) {
  if (!end_.ok()) return;
  std::string where;
  for (const Port& p : ports_) {
    if (where.empty() && !p.where.empty()) where = fmt::format(" ({})", p.where);
  }
  log::debug("tcp: rank {} {}", peer_.rank, how);
  end_everything({Code::PeerLost, fmt::format("rank {}{} {}", peer_.rank, where, how), peer_.rank});
  hang_up(false);
}

void TcpEndpoint::end_everything(const Status& reason) {
  end_ = reason;
  const auto end_send = [&](Completion& c) { finish(c, reason); };
  control_.detach(end_send);
  data_.detach(end_send);
  announced_.for_each([&](Completion& c, std::uint32_t key) {
    announced_.erase(key);
    finish(c, reason);
  });
  incoming_.for_each([&](Incoming& in, std::uint32_t key) {
    incoming_.erase(key);
    free_records_.push_back(&in);
    if (in.receive != nullptr) matcher_.fail(*in.receive, reason);
  });
  reason.code() == Code::PeerLost ? matcher_.fail(reason) : matcher_.close(reason);
}

void TcpEndpoint::hang_up(bool politely) {
  shared_.poller.remove_timed(*this);
  for (Port& p : ports_) {
    p.dialer.reset();
    if (!p.socket) continue;
    if (!p.ended) shared_.poller.remove(p.socket.get(), p);
    if (politely && !p.ended) {
      shared_.farewells.add(std::move(p.socket));
    } else {
      p.socket = FileDescriptor();
    }
  }
}

}  // namespace sinew::tcp
