#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/poller.hpp>

namespace sinew::tcp {

/// Makes one connection to one peer: each path in turn, both proofs, the peer's consent. Gives up only when nobody
/// listens at any address, or who listens is not the peer, or this process lacks what a connection takes for seconds;
/// whatever else ends an attempt is tried again, since a peer that computes answers late. Where no kernel answers it
/// gives up after so many `rounds`. A connection whose path goes dark before the peer can have taken it gives way to
/// the next.
class Dialer final : Handler, Timed {
 public:
  static constexpr auto kConnectPatience = std::chrono::seconds(3);
  static constexpr auto kPause = std::chrono::milliseconds(200);
  static constexpr int kClosings = 10;  ///< without a reply to our hello: somebody else has the port now
  static constexpr int kClosingsPerPath = 3;
  static constexpr auto kWaitForTheirs = std::chrono::seconds(5);
  static constexpr auto kShortage = std::chrono::seconds(5);

  struct Events {
    std::function<void(Socket socket)> connected;
    std::function<void(const Status& why)> hopeless;  ///< PeerLost, or System for want of something here
  };

  static constexpr int kForever = -1;

  Dialer(Poller& poller, std::vector<Path> paths, const Keys& keys, AuthClaim claim, int rounds, Events events);
  ~Dialer();

  /// Once; connected or hopeless come later, from the poller. Either may end this object.
  void start();
  /// Neither has come yet.
  bool active() const noexcept { return state_ != State::Over; }
  /// It has a connection, over which it has proved the job's secret: the peer may take that.
  bool has_proven() const noexcept { return state_ == State::Consent; }

 private:
  enum class State { Connecting, Proving, Consent, Pausing, Hopeless, Over };

  void ready(bool readable, bool writable) override;
  void tick(Clock::time_point now) override;
  void dial();
  void prove();
  void closed_early();
  void cut_off(int error);
  void look(Clock::time_point now) noexcept;
  void await_consent();
  void wait();
  void next_candidate(int error);
  void wait_for_room(const std::string& reason);
  void pause(Clock::duration time);
  void hang_up() noexcept;
  void despair(std::string why, Code code = Code::PeerLost);
  void finish() noexcept;

  Poller& poller_;
  std::vector<Path> paths_;
  const Keys& keys_;
  AuthClaim claim_;
  int rounds_;  // left
  Events events_;
  std::size_t at_ = 0;
  State state_ = State::Pausing;
  Clock::time_point until_ = Clock::time_point::max();
  Socket socket_;
  Authentication handshake_;
  bool asks_write_ = false;
  Clock::time_point looked_{};  // at the attempt
  bool slow_ = false;           // too long ago, once
  int closings_ = 0;            // by who may be a stranger, and not for want of words from us
  int turned_away_ = 0;         // those, and by others of the job
  Clock::time_point short_since_ = Clock::time_point::max();
  Code end_ = Code::PeerLost;  // Hopeless
  std::string refusals_;       // of the addresses tried since the last pause; Hopeless: why
  bool late_ = false;          // somebody may be there: an address that did not answer in time
};

}  // namespace sinew::tcp
