#pragma once

#include <list>

#include <sinew/core/net/socket.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {

/// Sockets whose endpoint has been closed. What the peer still sends is read and dropped until it has closed, too, or
/// a second has passed: a socket closed with unread bytes would reset the connection, and with it take back the last
/// messages that were written to it.
class Farewells final : Timed {
 public:
  explicit Farewells(Poller& poller) noexcept : poller_(poller) {}
  ~Farewells();

  /// What was sent and has not left goes on its way, and nothing more.
  void add(Socket socket);

 private:
  struct Leaving final : Handler {
    Leaving(Farewells& o, Socket s) : owner(o), socket(std::move(s)), until(Clock::now() + std::chrono::seconds(1)) {}
    void ready(bool, bool) override;

    Farewells& owner;
    Socket socket;
    Clock::time_point until;
    bool told = false;  // that nothing more comes
    bool gone = false;
  };

  void tick(Clock::time_point now) override;

  Poller& poller_;
  std::list<Leaving> leaving_;
};

}  // namespace sinew::tcp
