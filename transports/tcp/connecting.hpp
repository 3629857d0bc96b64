#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/transports/tcp/mailbox.hpp>

namespace sinew::tcp {

/// A connection to a peer that the control thread makes, while the thread of the transport computes.
/// Thread: the transport's, which also gets the events, from the mailbox.
class Connecting {
 public:
  struct Events {
    std::function<void(Socket socket)> connected;
    std::function<void(const Status& why)> hopeless;  ///< PeerLost, or System for want of something here
  };

  /// `rounds`: as Redial.
  Connecting(ControlThread& thread, Mailbox& mailbox, std::vector<Path> paths, const Keys& keys, const AuthClaim& claim,
             int rounds, Events events);
  /// Gives it up: neither event comes after this.
  ~Connecting();
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  /// true: the peer cannot have taken the connection, and never will. false: it may have, for this side has proved that
  /// it knows the secret.
  bool withdraw() noexcept;
  /// Neither event has come.
  bool active() const noexcept;

 private:
  struct State;
  ControlThread& thread_;
  std::shared_ptr<State> state_;
};

}  // namespace sinew::tcp
