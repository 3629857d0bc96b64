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
/// Thread: the transport's. The events come on that thread, too, from the mailbox.
class Connecting {
 public:
  struct Events {
    std::function<void(Socket socket)> connected;
    std::function<void(const Status& why)> hopeless;  ///< PeerLost, or System if this process lacks a resource
  };

  /// `rounds`: as for Redial.
  Connecting(ControlThread& thread, Mailbox& mailbox, std::vector<Path> paths, const Keys& keys, const AuthClaim& claim,
             int rounds, Events events);
  /// Gives the connection up. No event comes after this.
  ~Connecting();
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;

  /// Tries to withdraw the connection. true: the peer has not taken the connection, and never will. false: this side
  /// has already authenticated, so the peer may have taken the connection.
  bool withdraw() noexcept;
  /// True while the connection is being made and no event has come.
  bool active() const noexcept;

 private:
  struct State;
  ControlThread& thread_;
  std::shared_ptr<State> state_;
};

}  // namespace sinew::tcp
