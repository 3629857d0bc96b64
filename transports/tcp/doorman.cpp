#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/tcp/doorman.hpp>

namespace sinew::tcp {

Doorman::Doorman(Poller& poller, FileDescriptor listener, Keys keys, AuthClaim expected, Admit admit)
    : poller_(poller),
      listener_(std::move(listener)),
      keys_(std::move(keys)),
      expected_(expected),
      admit_(std::move(admit)) {
  if (const int error = listen(true); error != 0) throw_errno("tcp: watching the listener", error);
}

Doorman::~Doorman() {
  for (Guest& g : guests_) poller_.remove(g.socket.get(), g);
  listen(false);
  poller_.remove_timed(*this);
}

int Doorman::listen(bool on) {
  if (std::exchange(listening_, on) == on) return 0;
  if (!on) {
    poller_.remove(listener_.get(), *this);
    return 0;
  }
  const int error = poller_.add(listener_.get(), *this, false);
  listening_ = error == 0;
  if (!listening_) log::debug("tcp: watching the listener: {}", std::generic_category().message(error));
  return error;
}

void Doorman::ready(bool, bool) {
  gone_.clear();
  while (make_room()) {
    auto [socket, error] = accept_next(listener_.get());
    if (!socket) {
      if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
      log::debug("tcp: accepting a connection: {}", std::generic_category().message(error));
      break;
    }
    if (guests_.empty()) poller_.add_timed(*this);
    Guest& guest = guests_.emplace_back(*this, std::move(socket));
    const int unwatched = poller_.add(guest.socket.get(), guest, false);
    if (unwatched == 0) {
      static_cast<void>(hear(guest));
    } else {
      drop(guest, std::generic_category().message(unwatched));
    }
  }
  if (guests_.empty()) poller_.add_timed(*this);
  listen(false);  // until the next tick
}

/// false: all places are taken, by guests who have not had their time.
bool Doorman::make_room() {
  if (guests_.size() < Strangers::kPlaces) return true;
  const auto has_had_its_time = [this] { return Clock::now() - guests_.front().clock.since() >= Strangers::kAtLeast; };
  if (!has_had_its_time()) return false;
  if (!hear(guests_.front())) return true;  // this side was slow
  if (!has_had_its_time()) return make_room();
  drop(guests_.front(), "others wait, and it has not proved the job's secret");
  return true;
}

void Doorman::tick(Clock::time_point now) {
  gone_.clear();
  for (auto at = guests_.begin(); at != guests_.end();) {
    Guest& guest = *at++;
    const auto is_late = [&] { return now - guest.clock.since() >= Strangers::kAtMost; };
    if (is_late() && hear(guest) && is_late()) drop(guest, "it did not prove the job's secret in time");
  }
  listen(true);
  if (guests_.empty() && listening_) poller_.remove_timed(*this);
}

/// true: it is a guest still. One that has come a step further is the youngest.
bool Doorman::hear(Guest& guest) {
  switch (pump(guest.socket, guest.handshake)) {
    case Proof::Underway: break;
    case Proof::Proven: admit(guest); return false;
    case Proof::Refused: drop(guest, guest.handshake.reason()); return false;
    case Proof::Closed: drop(guest, "it closed the connection before it was proven"); return false;
  }
  const bool asks = guest.socket.wants_write();
  if (std::exchange(guest.asks_write, asks) != asks) poller_.want_write(guest.socket.get(), guest, asks);
  if (guest.clock.look(guest.socket, guest.handshake)) {
    const auto at = std::ranges::find_if(guests_, [&guest](const Guest& g) { return &g == &guest; });
    guests_.splice(guests_.end(), guests_, at);
  }
  return true;
}

void Doorman::admit(Guest& guest) {
  const AuthClaim claim = guest.handshake.claim();
  const ChannelClaim channel = ChannelClaim::decode(claim.channel);
  if (channel.channel >= kMostChannels || claim.from_rank < 0)
    return drop(guest, "it asks for a channel that does not exist");
  poller_.remove(guest.socket.get(), guest);
  Socket socket = std::move(guest.socket);
  drop(guest, {});
  admit_(claim.from_rank, channel, std::move(socket));
}

void Doorman::drop(Guest& guest, const std::string& why) {
  if (!why.empty()) log::debug("tcp: dropped a connection from {}: {}", peer_text(guest.socket.get()), why);
  if (guest.socket && !why.empty()) poller_.remove(guest.socket.get(), guest);
  guest.socket = Socket();
  const auto at = std::ranges::find_if(guests_, [&guest](const Guest& g) { return &g == &guest; });
  gone_.splice(gone_.end(), guests_, at);
}

}  // namespace sinew::tcp
