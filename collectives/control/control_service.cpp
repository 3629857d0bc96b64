#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/verdict/process_end.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {
namespace {

constexpr auto kComparePeriod = std::chrono::seconds(1);

/// Where other hosts may find this rank; last, for hosts that are one machine, loopback.
std::vector<std::string> addresses_of(std::uint16_t port, const Config& config) {
  std::vector<std::string> all;
  for (const SocketAddress& a : reachable_addresses(config.interface, port)) all.push_back(a.text());
  all.push_back(fmt::format("127.0.0.1:{}", port));
  return all;
}

}  // namespace

ControlService::ControlService(const Exchange& exchange, const ControlSetup& setup)
    : rank_(exchange.rank),
      process_(::getpid()),
      pages_(or_give_up(exchange, [&] { return ControlPages::make(setup, exchange.rank, exchange.size); })),
      token_(random_id()),
      remote_reports_(exchange.rank, peers_, *this, doorbell_),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      failures_(exchange.size),
      seen_(static_cast<std::size_t>(exchange.size)) {
  if (!wake_) throw_errno("eventfd");
  ProcessPlanes::add(token_, pages_);
  try {
    ControlIntroduction mine{token_, doorbell_.name(), {}};
    if (!setup.secret.empty() && static_cast<int>(setup.host.ranks().size()) < exchange.size) {
      or_give_up(exchange, [&] {
        port_ = port_of_process({.range = setup.config.ports, .tls = setup.config.tls});
        service_ = port_->serve({.service = kControlService, .to_rank = rank_, .instance = token_}, setup.secret,
                                [this](const AuthClaim& c, Socket s) { connected(c, std::move(s)); });
        mine.addresses = addresses_of(port_->number(), setup.config);
      });
    }
    peers_ = meet_control_peers(exchange, setup, pages_, mine);
    ProcessPlanes::open(token_, *this);
    // Ranks of this process do not ring, so their boards are read now for earlier notices. Ranks of other processes
    // have rung if they have said anything. The socket has kept that, because it was there before they knew its name.
    // So their boards are not read: N boards in each of N processes would cost N * N page faults.
    for (const ControlPeer& p : peers_) {
      if (p.rank != rank_ && p.process_token == process_token()) look(p.rank);
    }
    if (alone()) return;
    or_give_up(exchange, [&] {
      thread_ = ControlThread::of_process();
      const Keys keys{setup.secret, TlsContext::open(setup.config.tls)};
      thread_->run([&] { serve(keys); });
    });
  } catch (...) {
    service_ = {};
    if (thread_) thread_->run([this] { leave_thread(); });
    ProcessPlanes::remove(token_);
    throw;
  }
}

ControlService::~ControlService() {
  if (process_ != ::getpid()) return;
  pages_.page->left.store(1, std::memory_order_seq_cst);
  announce(Notice::of(NoticeKind::RankLeft, rank_, {}));
  if (thread_) {
    std::promise<void> told;
    thread_->post([this, &told] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
      look_everywhere();             // who leaves after this sees that this rank has left, and speaks for itself
      thread_->post([this, &told] {  // behind the notices of what was just seen: they must go out before the last word
        links_ ? links_->leave([&told] { told.set_value(); }) : told.set_value();
      });
    });
    told.get_future().wait();
    thread_->run([this] { leave_thread(); });
  }
  ProcessPlanes::remove(token_);
}

/// Ends all that the control thread does for this object.
void ControlService::leave_thread() {
  {
    const std::scoped_lock lock(mutex_);
    linked_.store(false, std::memory_order_relaxed);  // nothing is posted any more, whoever learns something yet
  }
  thread_->forget(this);
  service_ = {};
  links_.reset();
  thread_->unwatch(doorbell_.descriptor());
  for (const ControlPeer& p : peers_) thread_->unwatch(p.life);
}

bool ControlService::alone() const noexcept {
  return std::ranges::all_of(peers_, [&](const ControlPeer& p) { return p.process_token == process_token(); });
}

/// On the control thread, once.
void ControlService::serve(const Keys& keys) {
  thread_->watch(doorbell_.descriptor(), {.read = true}, [this] { hear(); });
  std::set<std::uint64_t> watched{process_token()};
  for (const ControlPeer& p : peers_) {
    if (p.life < 0 || !watched.insert(p.process_token).second) continue;
    thread_->watch(p.life, {.read = true}, [this, token = p.process_token] { process_ended(token); });
  }
  compare_records();
  if (!port_) return;
  const ControlPeer& self = peers_[static_cast<std::size_t>(rank_)];
  std::vector<const ControlPeer*> elsewhere;
  int own_first = rank_;
  for (const ControlPeer& p : peers_) {
    if (!p.page) elsewhere.push_back(&p);
    if (p.host_id == self.host_id) own_first = std::min(own_first, p.rank);
  }
  links_ = std::make_unique<HostLinks>(*thread_, static_cast<LinkUser&>(*this), keys, self, elsewhere, own_first);
  linked_.store(true, std::memory_order_release);
  for (auto& [claim, socket] : std::exchange(early_, {})) links_->adopt(claim, std::move(socket));
}

/// Takes an authenticated connection of another host. Runs on the control thread.
void ControlService::connected(const AuthClaim& claim, Socket socket) {
  if (links_) return links_->adopt(claim, std::move(socket));
  early_.emplace_back(claim, std::move(socket));
}

/// Calls that differ and went well on all sides show nowhere but here. Once a second, with the next rank below: what
/// all such pairs agree on, all ranks of the host agree on.
void ControlService::compare_records() {
  thread_->at(Clock::now() + kComparePeriod, this, [this] { compare_records(); });
  const RecordPage* below = nullptr;
  for (const ControlPeer& p : peers_) {
    if (p.rank < rank_ && p.records) below = p.records.get();
  }
  if (below == nullptr) return;
  for (const std::uint64_t communicator :
       communicators_that_differ(peers_[static_cast<std::size_t>(rank_)].records.get(), below)) {
    if (suspected_.insert(communicator).second) learn(Notice::of(NoticeKind::Suspicion, rank_, {}, communicator));
  }
}

void ControlService::hear() {
  Bytes message;
  while (doorbell_.next(message)) {
    if (message.empty()) continue;
    const auto body = std::span<const std::byte>(message).subspan(1);
    switch (static_cast<LinkFrame>(message[0])) {
      case LinkFrame::Question:
        if (links_) remote_reports_.ask(*links_, body);
        break;
      case LinkFrame::Answer: remote_reports_.keep(body); break;
      case LinkFrame::Notice: break;
    }
  }
  look_everywhere();
}

void ControlService::look_for_deaths(int patience_ms) {
  std::vector<pollfd> lives;
  std::vector<std::uint64_t> tokens;
  for (const ControlPeer& p : peers_) {
    if (p.life < 0 || p.process_token == process_token()) continue;
    lives.push_back({p.life, POLLIN, 0});
    tokens.push_back(p.process_token);
  }
  if (::poll(lives.data(), lives.size(), patience_ms) <= 0) return;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].revents != 0) process_ended(tokens[i]);
  }
}

void ControlService::process_ended(std::uint64_t token) {
  look_everywhere();  // its last words
  std::string how;
  for (const ControlPeer& p : peers_) {
    if (p.process_token != token) continue;
    if (how.empty()) {
      thread_->unwatch(p.life);
      how = how_it_ended(p.life, p.process);
    }
    if (p.page && p.page->left.load(std::memory_order_acquire) != 0) continue;
    const Notice lost =
        Notice::of(NoticeKind::RankLost, p.rank, {Code::PeerLost, fmt::format("{} ended: {}", p.name(), how)});
    {
      // This rank may end for that: whoever sees both end at once finds the cause in its last words.
      const std::scoped_lock lock(mutex_);
      pages_.page->board.post(lost);
    }
    learn(lost);
  }
}

void ControlService::announce(const Notice& notice) {
  if (!learn(notice)) return;
  {
    const std::scoped_lock lock(mutex_);
    pages_.page->board.post(notice);
  }
  tell_host();
}

/// Whoever hears of the end of the generation must not hear of it before its cause.
void ControlService::announce_end(const Notice& notice, int patience_ms) {
  if (thread_) thread_->run([this, patience_ms] { look_for_deaths(patience_ms); });
  {
    const std::scoped_lock lock(mutex_);
    for (const Notice& n : failures_.all()) {
      if (n.kind == NoticeKind::RankLost) pages_.page->board.post(n);
    }
  }
  announce(notice);
}

void ControlService::tell_host() const {
  for (const ControlPeer& p : peers_) {
    if (p.rank == rank_) continue;
    if (p.process_token == process_token()) {
      ProcessPlanes::look(p.token, rank_);
    } else if (p.page) {
      doorbell_.ring(p.doorbell, {});
    }
  }
}

/// true: it was news. It waits in the inbox then, and the thread that drives is woken.
bool ControlService::learn(const Notice& notice) {
  const std::scoped_lock lock(mutex_);
  if (!failures_.learn(notice)) return false;
  const bool spread = notice.from_afar == 0 && notice.kind != NoticeKind::Suspicion;
  if (spread && linked_.load(std::memory_order_acquire)) {
    thread_->post([this, notice] { links_->send_all(LinkFrame::Notice, std::as_bytes(std::span(&notice, 1))); }, this);
  }
  const bool gone = notice.kind == NoticeKind::RankLost || notice.kind == NoticeKind::RankLeft;
  if (gone && gone_) gone_(notice.world_rank);
  inbox_.push_back(notice);
  news_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
  return true;
}

int ControlService::speaker() const {
  const std::string& host = peers_[static_cast<std::size_t>(rank_)].host_id;
  for (const ControlPeer& p : peers_) {
    if (p.rank >= rank_) break;
    if (p.host_id != host || !living(p.rank)) continue;
    if (p.page && p.page->left.load(std::memory_order_seq_cst) != 0) continue;
    if (!is_stopped(state_of_process(p.process))) return p.rank;
  }
  return rank_;
}

void ControlService::greet(HostLink& link) {
  std::vector<Notice> known;
  {
    const std::scoped_lock lock(mutex_);
    known = failures_.all();
  }
  for (const Notice& n : known) link.send(LinkFrame::Notice, std::as_bytes(std::span(&n, 1)));
}

void ControlService::take(HostLink& from, LinkFrame type, std::span<const std::byte> bytes) try {
  switch (type) {
    case LinkFrame::Notice: {
      Notice notice;
      if (bytes.size() != sizeof notice)
        throw Error(Code::Mismatch, fmt::format("a notice of {} bytes, expected {}", bytes.size(), sizeof notice));
      std::memcpy(static_cast<void*>(&notice), bytes.data(), sizeof notice);
      learn_from_afar(notice);
      break;
    }
    case LinkFrame::Question: remote_reports_.answer(from, bytes); break;
    case LinkFrame::Answer:
      links_->answered(from);
      remote_reports_.take(bytes);
      break;
  }
} catch (const Error& e) {
  log::warning("a control message of rank {} is not understood: {}", from.peer(), e.what());
}

void ControlService::learn_from_afar(Notice notice) {
  notice.from_afar = 1;
  if (!learn(notice)) return;
  {
    const std::scoped_lock lock(mutex_);
    pages_.page->board.post(notice);
  }
  tell_host();
}

void ControlService::out_of_reach(int world_rank, const std::string& why) {
  const ControlPeer& peer = peers_[static_cast<std::size_t>(world_rank)];
  learn_from_afar(
      Notice::of(NoticeKind::RankLost, world_rank, {Code::PeerLost, fmt::format("{} ended: {}", peer.name(), why)}));
}

void ControlService::ask(const Question& question) {
  if (!linked_.load(std::memory_order_acquire)) return;
  thread_->post([this, bytes = question.encode()] { remote_reports_.ask(*links_, bytes); }, this);
}

std::optional<RankReport> ControlService::report(int rank, std::uint64_t communicator, std::uint32_t sequence) const {
  return remote_reports_.report(rank, communicator, sequence);
}

std::vector<Notice> ControlService::take_news() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_.get(), &count, sizeof count));
  news_.store(false, std::memory_order_relaxed);
  return std::exchange(inbox_, {});
}

void ControlService::look(int from) {
  const auto r = static_cast<std::size_t>(from);
  if (r >= peers_.size() || !peers_[r].page) return;
  const std::scoped_lock in_order(looking_);
  std::vector<Notice> found;
  {
    const std::scoped_lock lock(mutex_);
    const std::uint64_t missed = peers_[r].page->board.read(seen_[r], [&](const Notice& n) { found.push_back(n); });
    if (missed > 0)
      log::warning("{} notices of rank {} were overwritten before rank {} read them", missed, from, rank_);
  }
  for (const Notice& n : found) learn(n);
}

void ControlService::look_everywhere() {
  for (const ControlPeer& p : peers_) {
    if (p.rank != rank_) look(p.rank);
  }
}

Status ControlService::end_of(std::uint64_t communicator, const std::vector<int>& world_ranks) const {
  const std::scoped_lock lock(mutex_);
  return failures_.end_of(communicator, world_ranks);
}

Status ControlService::world_end() const {
  const std::scoped_lock lock(mutex_);
  return failures_.world_end();
}

std::optional<Notice> ControlService::proposal_of(int leader) const {
  const std::scoped_lock lock(mutex_);
  return failures_.proposal_of(leader);
}

std::optional<Notice> ControlService::vote_of(int rank) const {
  const std::scoped_lock lock(mutex_);
  return failures_.vote_of(rank);
}

void ControlService::on_gone(std::function<void(int)> call) {
  const std::scoped_lock lock(mutex_);
  gone_ = std::move(call);
}

bool ControlService::left(int rank) const {
  const std::scoped_lock lock(mutex_);
  return failures_.left(rank);
}

bool ControlService::living(int rank) const {
  const std::scoped_lock lock(mutex_);
  return failures_.living(rank);
}

}  // namespace sinew
