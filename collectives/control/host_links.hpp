#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/control/control_peers.hpp>
#include <sinew/collectives/control/host_link.hpp>
#include <sinew/collectives/control/life_lines.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/socket_address.hpp>

namespace sinew {

/// Who uses the links of a rank: its control service.
class LinkUser {
 public:
  virtual ~LinkUser() = default;
  /// Neither lost nor left.
  virtual bool is_living(int world_rank) const = 0;
  /// World rank of the rank that speaks for this rank's host: the lowest that lives and is not stopped.
  virtual int speaker() const = 0;
  /// Everything somebody who has just come must be told.
  virtual void greet(HostLink& link) = 0;
  virtual void take(HostLink& from, LinkFrame type, std::span<const std::byte> bytes) = 0;
  /// The kernel there says that the process has ended or that nobody listens any more, or the host has been out of
  /// reach for long.
  virtual void out_of_reach(int world_rank, const std::string& why) = 0;
};

/// The connections of one rank to other hosts. The rank that speaks for its host keeps one link to each other host. Any
/// rank keeps the links that other hosts have opened to it. The first link between two hosts is opened by the host with
/// the lower first rank. After two seconds without a link, or after a link has ended, either host may open one. A host
/// that had a link and cannot be reached for four seconds is lost. Beside each link there is a liveness connection
/// (LifeLines). It tells when the process at its other end has ended, even if a child of that process keeps the link
/// open.
/// Thread: the control thread.
class HostLinks {
 public:
  /// `elsewhere`: peers on other hosts; `own_first`: the lowest rank of this host.
  HostLinks(ControlThread& thread, LinkUser& user, Keys keys, const ControlPeer& self,
            const std::vector<const ControlPeer*>& elsewhere, int own_first);
  ~HostLinks();
  HostLinks(const HostLinks&) = delete;
  HostLinks& operator=(const HostLinks&) = delete;

  /// Takes over a connection that another rank has opened.
  void adopt(const AuthClaim& claim, Socket socket);
  /// Looks after the links; called when something has changed, and by itself every quarter of a second.
  void maintain();
  /// To every host there is a link with.
  void send_all(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body = {});
  /// To one host; false: there is no link, or it does not answer.
  bool ask(const std::string& host_id, std::span<const std::byte> question);
  /// To whom it came from.
  void answered(HostLink& link) noexcept { deaf_since_.erase(&link); }
  /// This rank says no more than it has said: calls `left` once every host with a living rank has taken it, over a
  /// new link where there is none, or after a second.
  void leave(std::function<void()> left);

 private:
  struct Host {
    std::string id;
    std::string name;
    std::vector<const ControlPeer*> ranks;
    std::unique_ptr<Dialer> attempt;
    std::size_t next_candidate = 0;
    Clock::time_point without_since{};
    std::string worked;  // address that has carried a link, without its port
    std::string trouble;
    bool told = false;
    bool goodbye = false;
    std::size_t failures = 0;  // of attempts to say it
  };
  struct Candidate {
    const ControlPeer* peer;
    SocketAddress address;
  };

  AuthClaim claim_to(const ControlPeer& peer, LinkChannel channel) const;
  bool has_said_goodbye() const;
  void gone();
  void watch_again(HostLink& link);
  void serve(HostLink* link);
  void opened(int rank, LinkChannel channel, Socket socket, bool connects, const std::string& address);
  void attempt_ended(Host& host, const Candidate& to, const Dialer::Failure& failure);
  void keep(Host& host, Clock::time_point now);
  void lose_all(const Host& host);
  void begin_attempt(Host& host);
  std::vector<Candidate> candidates(const Host& host) const;
  bool usable(const HostLink& link) const;
  HostLink* link_to(const Host& host) const;
  bool linked(const Host& host) const;
  void draw_life_lines();
  void lose_soon(int rank, const char* why);
  Host* host_of(int world_rank) noexcept;
  const ControlPeer& peer_of(int world_rank) const noexcept;
  void drop(HostLink* link);
  void schedule();

  ControlThread& thread_;
  LinkUser& user_;
  Keys keys_;
  const ControlPeer& self_;
  int own_first_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<HostLink>> links_;
  LifeLines lives_;
  std::map<const HostLink*, Clock::time_point> deaf_since_;  // asked and silent
  std::function<void()> left_;                               // set: this rank is leaving
};

}  // namespace sinew
