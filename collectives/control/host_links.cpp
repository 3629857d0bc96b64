#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/control/host_links.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/strangers.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kService = 0x6c727463;  // "ctrl"
constexpr auto kLookAfter = milliseconds(250);
constexpr auto kAttempt = seconds(2);  // to connect and prove the secret
constexpr auto kOtherSideBegins = seconds(2);
constexpr auto kGiveUpHost = seconds(4);  // two attempts; with the keep-alive before, less than ten seconds
constexpr auto kDeaf = seconds(1);
constexpr auto kLastWords = milliseconds(150);  // between a process's end and the verdict
constexpr auto kProcessEnded = "the kernel of its host closed the connection that its process held";
constexpr auto kLeaveWithin = seconds(3);  // where the other side is slow to answer

/// The machine of an address: no port, and IPv4 as such where a socket for both has wrapped it.
std::string machine_of(const std::string& address) {
  constexpr std::string_view kWrapped = "[::ffff:";
  std::string host = address.substr(0, address.rfind(':'));
  if (!host.starts_with(kWrapped)) return host;
  return host.substr(kWrapped.size(), host.size() - kWrapped.size() - 1);
}

}  // namespace

HostLinks::HostLinks(ControlThread& thread, LinkUser& user, Listener listener, LinkKeys keys, const ControlPeer& self,
                     const std::vector<const ControlPeer*>& elsewhere, int own_first)
    : thread_(thread),
      user_(user),
      listener_(std::move(listener)),
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
  schedule();
  maintain();
}

HostLinks::~HostLinks() {
  thread_.forget(this);
  listen(false);
  for (const auto& l : links_) thread_.unwatch(l->descriptor());
  for (const auto& l : unproven_) thread_.unwatch(l->descriptor());
  for (const Host& h : hosts_) {
    if (h.attempt) thread_.unwatch(h.attempt->descriptor());
  }
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

void HostLinks::watch(HostLink& link, bool fresh) {
  if (fresh) {
    thread_.watch(link.descriptor(), link.interest(), [this, l = &link] { serve(l); });
  } else {
    thread_.change(link.descriptor(), link.interest());
  }
}

void HostLinks::listen(bool on) {
  if (std::exchange(listening_, on) == on) return;
  const int socket = listener_.socket.get();
  on ? thread_.watch(socket, {.read = true}, [this] { accept(); }) : thread_.unwatch(socket);
}

void HostLinks::accept() {
  while (make_room()) {
    FileDescriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      log::debug("accepting a control connection: {}", std::generic_category().message(errno));
      break;
    }
    const AuthClaim expected{.service = kService, .to_rank = self_.rank, .instance = self_.token};
    unproven_.push_back(HostLink::accept(std::move(socket), keys_, expected));
    watch(*unproven_.back(), true);
  }
  listen(false);  // until a place is free, or the next look
}

bool HostLinks::is_unproven(const HostLink* link) const {
  return std::ranges::any_of(unproven_, [link](const auto& l) { return l.get() == link; });
}

/// Whoever has had that long is heard once more, for this side may have been slow, and then sent away; true: one has
/// gone, of `most`.
bool HostLinks::dismiss(Duration time, std::size_t most, std::string_view why) {
  std::vector<HostLink*> all;
  for (const auto& l : unproven_) all.push_back(l.get());
  std::size_t gone = 0;
  for (HostLink* l : all) {
    // One that has proved it this moment is Open, and at work.
    const auto is_late = [&] { return l->state() == HostLink::State::Proving && Clock::now() - l->since() >= time; };
    if (gone == most || !is_late()) continue;
    serve(l);
    if (is_unproven(l) && !is_late()) continue;
    ++gone;
    if (!is_unproven(l)) continue;
    log::debug("a control connection from {} was dropped: {}", l->address(), why);
    thread_.unwatch(l->descriptor());
    std::erase_if(unproven_, [l](const auto& u) { return u.get() == l; });
  }
  return gone != 0;
}

/// false: all places are taken, by strangers who have not had their time.
bool HostLinks::make_room() {
  return unproven_.size() < Strangers::kPlaces ||
         dismiss(Strangers::kAtLeast, 1, "others wait, and it has not proved the job's secret");
}

void HostLinks::serve(HostLink* link) {
  link->serve(taker(*link));
  const bool closed = link->state() == HostLink::State::Closed;
  const bool open = link->state() == HostLink::State::Open;
  if (closed) {
    thread_.unwatch(link->descriptor());
  } else {
    watch(*link, false);
  }
  const auto is_it = [link](const auto& l) { return l.get() == link; };
  if (std::ranges::any_of(links_, is_it)) {
    if (closed) drop(link);
    return;
  }
  if (!closed && !open) return;
  if (const auto at = std::ranges::find_if(unproven_, is_it); at != unproven_.end()) {
    std::unique_ptr<HostLink> taken = std::move(*at);
    unproven_.erase(at);
    listen(true);
    if (open) return opened(std::move(taken));
    log::debug("a control connection was refused: {}", taken->reason());
    return;
  }
  for (Host& h : hosts_) {
    if (h.attempt.get() != link) continue;
    if (open) return opened(std::move(h.attempt));
    return attempt_ended(h);
  }
}

void HostLinks::opened(std::unique_ptr<HostLink> link) {
  Host* host = host_of(link->peer());
  if (host == nullptr) return thread_.unwatch(link->descriptor());
  if (link->channel() == LinkChannel::Life) {
    thread_.unwatch(link->descriptor());
    return lives_.keep(std::move(link));
  }
  log::debug("control connection between rank {} and rank {}", self_.rank, link->peer());
  host->without_since = {};
  host->trouble.clear();
  host->worked = machine_of(link->address());
  links_.push_back(std::move(link));
  HostLink& open = *links_.back();
  user_.greet(open);
  if (left_) open.finish();
  if (open.state() == HostLink::State::Open) watch(open, false);
  draw_life_lines();
}

/// One to each rank that this one has connected to: the other side knows of it, too.
void HostLinks::draw_life_lines() {
  lives_.drop_late_attempts();
  if (left_) return;
  for (const auto& l : links_) {
    if (!l->connects() || !user_.is_living(l->peer()) || lives_.has_or_tries(l->peer())) continue;
    const AuthClaim claim = claim_to(peer_of(l->peer()), LinkChannel::Life);
    lives_.connect(SocketAddress::parse(l->address()), keys_, claim);
  }
}

/// After its last words, or its goodbye, which may be on their way.
void HostLinks::lose_soon(int rank, const char* why) {
  thread_.at(Clock::now() + kLastWords, this, [this, rank, why] {
    if (user_.is_living(rank)) user_.out_of_reach(rank, why);
  });
}

void HostLinks::drop(HostLink* link) {
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
void HostLinks::attempt_ended(Host& host) {
  const int rank = host.attempt->peer();
  host.trouble = host.attempt->reason();
  const bool refused = host.attempt->error() == ECONNREFUSED && !host.worked.empty() &&
                       machine_of(host.attempt->address()) == host.worked;
  host.attempt.reset();
  if (left_ && ++host.failures >= candidates(host).size()) host.goodbye = true;  // nobody listens
  if (refused) lose_soon(rank, "its process no longer listens");
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
  const Candidate& next = all[host.next_candidate++ % all.size()];
  host.attempt = connect(next);
  if (host.attempt->state() == HostLink::State::Closed) {
    host.trouble = host.attempt->reason();
    host.attempt.reset();
  } else {
    watch(*host.attempt, true);
  }
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
  if (host.attempt && now - host.attempt->since() > kAttempt) {
    const bool reached = host.attempt->state() == HostLink::State::Proving;
    if (reached) host.without_since = now;
    thread_.unwatch(host.attempt->descriptor());
    host.trouble = fmt::format("no answer from {} within {} s", host.attempt->address(), kAttempt.count());
    host.attempt.reset();
  }
  const auto without = now - host.without_since;
  if (without > kGiveUpHost && !host.worked.empty()) {
    for (const ControlPeer* p : host.ranks) {
      if (living(p)) user_.out_of_reach(p->rank, fmt::format("its host is out of reach: {}", host.trouble));
    }
    return;
  }
  if (without > kGiveUpHost && !host.told) {
    host.told = true;
    log::warning("no control connection to host {}: failures there will not be known here; {}", host.name,
                 host.trouble);
  }
  const bool mine =
      left_ || silent || !host.worked.empty() || own_first_ < host.ranks[0]->rank || without > kOtherSideBegins;
  if (!host.attempt && mine) begin_attempt(host);
}

void HostLinks::maintain() {
  dismiss(Strangers::kAtMost, Strangers::kPlaces, "it did not prove the job's secret in time");
  listen(true);
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
    if (l->state() == HostLink::State::Open) watch(*l, false);
  }
}

bool HostLinks::ask(const std::string& host_id, std::span<const std::byte> question) {
  for (const Host& h : hosts_) {
    HostLink* link = h.id == host_id ? link_to(h) : nullptr;
    if (link == nullptr) continue;
    deaf_since_.try_emplace(link, Clock::now());
    link->send(LinkFrame::Question, question);
    if (link->state() == HostLink::State::Open) watch(*link, false);
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

HostLink::Take HostLinks::taker(HostLink& link) {
  return [this, &link](LinkFrame type, std::span<const std::byte> bytes) { user_.take(link, type, bytes); };
}

std::unique_ptr<HostLink> HostLinks::connect(const Candidate& to) const {
  return HostLink::connect(to.address, keys_, claim_to(*to.peer, LinkChannel::Messages));
}

AuthClaim HostLinks::claim_to(const ControlPeer& peer, LinkChannel channel) const {
  return {.service = kService,
          .from_rank = self_.rank,
          .to_rank = peer.rank,
          .channel = static_cast<std::uint32_t>(channel),
          .instance = peer.token};
}

}  // namespace sinew
