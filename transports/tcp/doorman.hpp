#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/net/strangers.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {

/// Listens, and lets in who proves the job's secret. Strangers cost 64 bytes of reading and a place
/// (core/net/strangers.hpp); then they are dropped with a debug line.
class Doorman final : Handler, Timed {
 public:
  /// Told once per proven connection: which of the pair's, from whom. It says its consent on the socket.
  using Admit = std::function<void(int rank, ChannelClaim channel, Socket socket)>;

  Doorman(Poller& poller, FileDescriptor listener, Keys keys, AuthClaim expected, Admit admit);
  ~Doorman();

 private:
  struct Guest final : Handler {
    Guest(Doorman& owner, FileDescriptor fd)
        : doorman(owner),
          socket(std::move(fd), Socket::End::Accepts, owner.keys_.tls),
          handshake(Authentication::acceptor(owner.keys_.secret, owner.expected_)) {}
    void ready(bool, bool) override { static_cast<void>(doorman.hear(*this)); }

    Doorman& doorman;
    Socket socket;
    Authentication handshake;
    ProofClock clock;
    bool asks_write = false;
  };

  void ready(bool readable, bool writable) override;
  void tick(Clock::time_point now) override;
  bool hear(Guest& guest);
  void admit(Guest& guest);
  void drop(Guest& guest, const std::string& why);
  int listen(bool on);
  bool make_room();

  Poller& poller_;
  FileDescriptor listener_;
  Keys keys_;
  AuthClaim expected_;
  Admit admit_;
  std::list<Guest> guests_;  // in the order in which they came
  std::list<Guest> gone_;    // since the last tick or event: an event of theirs may be at work
  bool listening_ = false;
};

}  // namespace sinew::tcp
