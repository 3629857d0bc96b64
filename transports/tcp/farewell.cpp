#include <array>
#include <cerrno>

#include <sinew/transports/tcp/farewell.hpp>

namespace sinew::tcp {
namespace {

constexpr auto kToLeave = std::chrono::seconds(9);  // for what was sent, where the peer takes nothing

/// Reads what is there; true: the peer has closed, or there is an error.
bool drain(Socket& socket) noexcept {
  std::array<std::byte, 16384> nowhere;
  for (;;) {
    const ssize_t n = socket.receive(nowhere);
    if (n == 0) return true;
    if (n < 0) return errno != EAGAIN && errno != EINTR;
  }
}

}  // namespace

Farewells::~Farewells() {
  for (Leaving& l : leaving_) {
    poller_.remove(l.socket.get(), l);
    if (!l.told) l.socket.finish();
    drain(l.socket);
  }
  if (!leaving_.empty()) poller_.remove_timed(*this);
}

void Farewells::add(Socket socket) {
  if (leaving_.empty()) poller_.add_timed(*this);
  Leaving& l = leaving_.emplace_back(*this, std::move(socket));
  l.told = l.socket.finish();
  l.gone = poller_.add(l.socket.get(), l, !l.told) != 0;
}

void Farewells::Leaving::ready(bool, bool) {
  if (!told && (told = socket.finish())) owner.poller_.want_write(socket.get(), *this, false);
  if (!drain(socket)) return;
  owner.poller_.remove(socket.get(), *this);
  gone = true;
}

void Farewells::tick(Clock::time_point now) {
  std::erase_if(leaving_, [&](Leaving& l) {
    const bool over = now >= l.until + (l.told ? Clock::duration{} : Clock::duration(kToLeave));
    if (!l.gone && over) poller_.remove(l.socket.get(), l);
    return l.gone || over;
  });
  if (leaving_.empty()) poller_.remove_timed(*this);
}

}  // namespace sinew::tcp
