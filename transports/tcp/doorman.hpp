#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include <sinew/core/auth.hpp>
#include <sinew/core/socket_address.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {

/// Listens, and lets in who proves the job's secret. Strangers cost 64 bytes of reading, one of at most kGuests places
/// and five seconds; then they are dropped with a debug line. While all places are taken, the rest wait in the kernel.
class Doorman final : Handler, Timed {
 public:
  static constexpr std::size_t kGuests = 64;
  static constexpr auto kPatience = std::chrono::seconds(5);

  /// Told once per proven connection: which of the pair's, from whom. It says its consent on the socket.
  using Admit = std::function<void(int rank, ChannelClaim channel, FileDescriptor socket)>;

  Doorman(Poller& poller, FileDescriptor listener, Bytes secret, AuthClaim expected, Admit admit);
  ~Doorman();

 private:
  struct Guest final : Handler {
    Guest(Doorman& owner, FileDescriptor fd)
        : doorman(owner),
          socket(std::move(fd)),
          handshake(Authentication::acceptor(owner.secret_, owner.expected_)),
          leaves(Clock::now() + kPatience) {}
    void ready(bool, bool) override { doorman.hear(*this); }

    Doorman& doorman;
    FileDescriptor socket;
    Authentication handshake;
    Clock::time_point leaves;
  };

  void ready(bool readable, bool writable) override;
  void tick(Clock::time_point now) override;
  void hear(Guest& guest);
  void admit(Guest& guest);
  void drop(Guest& guest, const std::string& why);
  void listen(bool on);

  Poller& poller_;
  FileDescriptor listener_;
  Bytes secret_;
  AuthClaim expected_;
  Admit admit_;
  std::list<Guest> guests_;
  std::list<Guest> gone_;  // since the last tick or event: an event of theirs may be at work
  bool listening_ = false;
};

}  // namespace sinew::tcp
