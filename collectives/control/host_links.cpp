#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/control/host_links.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kLookAfter = milliseconds(250);
constexpr auto kAttempt = seconds(2);  // to connect and prove the secret
constexpr auto kOtherSideBegins = seconds(2);
constexpr auto kGiveUpHost = seconds(4);  // two attempts; with the keep-alive before, less than ten seconds
constexpr auto kDeaf = seconds(1);
constexpr auto kLastWords = milliseconds(150);  // between a process's end and the verdict
constexpr auto kProcessEnded = "the kernel of its host closed the connection that its process held";
constexpr auto kLeaveWithin = seconds(3);  // where the other side is slow to answer

/// An address without its port.
std::string machine_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

HostLinks::HostLinks(ControlThread& thread, LinkUser& user, Keys keys, const ControlPeer& self,
                     const std::vector<const ControlPeer*>& elsewhere, int own_first)
    : thread_(thread),
      user_(user),
      keys_(std::move(keys)),
      self_(self),
      own_first_(own_first),
      lives_(thread, [this](int rank) { lose_soon(rank, kProcessEnded); }) {
  for (const ControlPeer* p : elsewhere) {
    const auto known = std::ranges::find(hosts_, p->host_id, &Host::id);
    Host& host = known != hosts_.end() ? *known : hosts_.emplace_back();
    host.id = p->host_id;
    host.name = p->host_name;
    host.ranks.push_back(p);
  }
  maintain();
  schedule();  // last, because a timer of an object whose constructor throws would stay
}

HostLinks::~HostLinks() {
  thread_.forget(this);
  for (const auto& l : links_) thread_.unwatch(l->descriptor());
}

void HostLinks::schedule() {
  thread_.at(Clock::now() + kLookAfter, this, [this] {
    schedule();
    maintain();
  });
}

HostLinks::Host* HostLinks::host_of(int world_rank) noexcept {
  for (Host& h : hosts_) {
    for (const ControlPeer* p : h.ranks) {
      if (p->rank == world_rank) return &h;
    }
  }
  return nullptr;
}

/// Of a link's other end.
const ControlPeer& HostLinks::peer_of(int world_rank) const noexcept {
  const ControlPeer* found = nullptr;
  for (const Host& h : hosts_) {
    for (const ControlPeer* p : h.ranks) {
      if (p->rank == world_rank) found = p;
    }
  }
  return *found;
}

void HostLinks::watch_again(HostLink& link) {
  if (!link.ended()) thread_.change(link.descriptor(), link.interest());
}

void HostLinks::serve(HostLink* link) {
  link->serve([this, link](LinkFrame type, std::span<const std::byte> bytes) { user_.take(*link, type, bytes); });
  if (link->ended()) return drop(link);
  watch_again(*link);
}

void HostLinks::adopt(const AuthClaim& claim, Socket socket) {
  const std::string from = peer_address(socket.get()).text();
  opened(claim.from_rank, static_cast<LinkChannel>(claim.channel), std::move(socket), false, from);
}

void HostLinks::opened(int rank, LinkChannel channel, Socket socket, bool connects, const std::string& address) {
  Host* host = host_of(rank);
  if (host == nullptr) return;
  if (channel == LinkChannel::Life) return lives_.keep(rank, std::move(socket));
  log::debug("control connection between rank {} and rank {}", self_.rank, rank);
  links_.push_back(std::make_unique<HostLink>(std::move(socket), rank, connects, address));
  HostLink& open = *links_.back();
  host->without_since = {};
  host->trouble.clear();
  host->worked = machine_of(open.address());
  thread_.watch(open.descriptor(), open.interest(), [this, link = &open] { serve(link); });
  user_.greet(open);
  if (left_) open.finish();
  watch_again(open);
  draw_life_lines();
  // TLS may have read bytes already, for which no event comes. They are served later: if the link ended here, links_
  // would change under the caller.
  thread_.post(
      [this, link = &open] {
        if (std::ranges::any_of(links_, [link](const auto& l) { return l.get() == link; })) serve(link);
      },
      this);
}

/// One to each rank that this one has connected to: the other side knows of it, too.
void HostLinks::draw_life_lines() {
  if (left_) return;
  for (const auto& l : links_) {
    if (!l->connects() || !user_.is_living(l->peer()) || lives_.has_or_tries(l->peer())) continue;
    lives_.connect(SocketAddress::parse(l->address()), keys_, claim_to(peer_of(l->peer()), LinkChannel::Life));
  }
}

/// After its last words, or its goodbye, which may be on their way.
void HostLinks::lose_soon(int rank, const char* why) {
  thread_.at(Clock::now() + kLastWords, this, [this, rank, why] {
    if (user_.is_living(rank)) user_.out_of_reach(rank, why);
  });
}

void HostLinks::drop(HostLink* link) {
  thread_.unwatch(link->descriptor());
  const int rank = link->peer();
  const std::string reason = link->reason();
  const bool finished = link->finished();
  deaf_since_.erase(link);
  std::erase_if(links_, [link](const auto& l) { return l.get() == link; });
  Host* host = host_of(rank);
  if (host == nullptr) return;
  host->trouble = reason;
  host->next_candidate = 0;
  host->goodbye = host->goodbye || (left_ && finished);
  maintain();
}

/// A refusal at an address of a machine that has answered before means that the process is gone.
void HostLinks::attempt_ended(Host& host, const Candidate& to, const Dialer::Failure& failure) {
  host.attempt.reset();
  // Loopback leads to the other host only if both are one machine. Its refusal must not hide why a link is down.
  if (!to.address.is_loopback() || host.trouble.empty()) {
    host.trouble = failure.error == ETIMEDOUT
                       ? fmt::format("no answer from {} within {} s", to.address.text(), kAttempt.count())
                       : failure.text;
  }
  // The connection was accepted, so the process is there. It may be stopped.
  if (failure.error == ETIMEDOUT && failure.stage == Dialer::Stage::Authenticating) host.without_since = Clock::now();
  if (left_ && ++host.failures >= candidates(host).size()) host.goodbye = true;  // nobody listens
  const bool refused =
      failure.error == ECONNREFUSED && !host.worked.empty() && machine_of(to.address.text()) == host.worked;
  if (refused) lose_soon(to.peer->rank, "its process no longer listens");
  maintain();
}

bool HostLinks::usable(const HostLink& link) const {
  const auto asked = deaf_since_.find(&link);
  return user_.is_living(link.peer()) && (asked == deaf_since_.end() || Clock::now() - asked->second < kDeaf);
}

HostLink* HostLinks::link_to(const Host& host) const {
  for (const auto& l : links_) {
    const bool there = std::ranges::any_of(host.ranks, [&](const ControlPeer* p) { return p->rank == l->peer(); });
    if (there && usable(*l)) return l.get();
  }
  return nullptr;
}

std::vector<HostLinks::Candidate> HostLinks::candidates(const Host& host) const {
  std::vector<Candidate> all;
  for (const ControlPeer* p : host.ranks) {
    const bool linked = std::ranges::any_of(links_, [&](const auto& l) { return l->peer() == p->rank; });
    if (linked || !user_.is_living(p->rank)) continue;
    for (const std::string& a : p->addresses) all.push_back({p, SocketAddress::parse(a)});
  }
  return all;
}

void HostLinks::begin_attempt(Host& host) {
  const std::vector<Candidate> all = candidates(host);
  if (all.empty()) return;
  const Candidate to = all[host.next_candidate++ % all.size()];
  const auto last = std::make_shared<Dialer::Failure>();
  host.attempt = std::make_unique<Dialer>(
      thread_.loop(),
      Dialer::Options{.paths = {{to.address}},
                      .keys = keys_,
                      .claim = claim_to(*to.peer, LinkChannel::Messages),
                      .connect_within = kAttempt,
                      .authenticate_within = kAttempt},
      Dialer::Events{.connected =
                         [this, &host, to](Socket socket, std::size_t) {
                           host.attempt.reset();
                           opened(to.peer->rank, LinkChannel::Messages, std::move(socket), true, to.address.text());
                         },
                     .ended = [this, &host, to, last](const Status&) { attempt_ended(host, to, *last); },
                     .failed =
                         [last](const Dialer::Failure& failure) {
                           *last = failure;
                           return Dialer::Next{.end = Status(Code::PeerLost, failure.text)};
                         }});
  host.attempt->start();
}

/// A child of a dead rank may keep its link open: that says nothing of the host.
bool HostLinks::linked(const Host& host) const {
  return std::ranges::any_of(links_, [&](const auto& l) {
    return std::ranges::any_of(host.ranks, [&](const ControlPeer* p) { return p->rank == l->peer(); }) &&
           user_.is_living(l->peer());
  });
}

void HostLinks::keep(Host& host, Clock::time_point now) {
  const auto living = [&](const ControlPeer* p) { return user_.is_living(p->rank); };
  if (link_to(host) != nullptr || host.goodbye || std::ranges::none_of(host.ranks, living)) return;
  const bool silent = linked(host);  // its kernel is there, its process may be stopped
  if (silent || host.without_since == Clock::time_point{}) host.without_since = now;
  const auto without = now - host.without_since;
  if (without > kGiveUpHost && !host.worked.empty()) {
    lose_all(host);
    return;
  }
  if (without > kGiveUpHost && !host.told) {
    host.told = true;
    log::warning(
        "no control connection from host {} to host {}: failures there will not be known here; {}; does a firewall or "
        "a route stop connections between these hosts?",
        self_.host_name, host.name, host.trouble.empty() ? "no answer yet" : host.trouble);
  }
  const bool mine =
      left_ || silent || !host.worked.empty() || own_first_ < host.ranks[0]->rank || without > kOtherSideBegins;
  if (!host.attempt && mine) begin_attempt(host);
}

/// Each rank's text names the others: who is told of one first ends with that text.
void HostLinks::lose_all(const Host& host) {
  std::vector<int> lost;
  for (const ControlPeer* p : host.ranks) {
    if (user_.is_living(p->rank)) lost.push_back(p->rank);
  }
  for (const int rank : lost) {
    std::vector<int> others = lost;
    std::erase(others, rank);
    const std::string with = others.empty() ? "" : fmt::format(", and {} with it", name_ranks(others));
    user_.out_of_reach(rank, fmt::format("its host is out of reach{}: {}", with, host.trouble));
  }
}

void HostLinks::maintain() {
  if (user_.speaker() == self_.rank) {
    const auto now = Clock::now();
    for (Host& h : hosts_) keep(h, now);
  }
  draw_life_lines();
  if (left_ && has_said_goodbye()) gone();
}

void HostLinks::send_all(LinkFrame type, std::span<const std::byte> head, std::span<const std::byte> body) {
  for (const auto& l : links_) {
    l->send(type, head, body);
    watch_again(*l);
  }
}

bool HostLinks::ask(const std::string& host_id, std::span<const std::byte> question) {
  for (const Host& h : hosts_) {
    HostLink* link = h.id == host_id ? link_to(h) : nullptr;
    if (link == nullptr) continue;
    deaf_since_.try_emplace(link, Clock::now());
    link->send(LinkFrame::Question, question);
    watch_again(*link);
    return true;
  }
  return false;
}

void HostLinks::leave(std::function<void()> left) {
  left_ = std::move(left);
  thread_.at(Clock::now() + kLeaveWithin, this, [this] { gone(); });
  for (const auto& l : links_) l->finish();
  maintain();
}

void HostLinks::gone() {
  if (const auto left = std::exchange(left_, nullptr)) left();
}

/// Everybody knows that this rank leaves, or another rank of this host will tell them.
bool HostLinks::has_said_goodbye() const {
  return std::ranges::all_of(hosts_, [&](const Host& h) {
    const bool nobody = std::ranges::none_of(h.ranks, [&](const ControlPeer* p) { return user_.is_living(p->rank); });
    return h.goodbye || nobody || (!linked(h) && user_.speaker() != self_.rank);
  });
}

AuthClaim HostLinks::claim_to(const ControlPeer& peer, LinkChannel channel) const {
  return {.service = kControlService,
          .from_rank = self_.rank,
          .to_rank = peer.rank,
          .channel = static_cast<std::uint32_t>(channel),
          .instance = peer.token};
}

}  // namespace sinew
