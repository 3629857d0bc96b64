#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/net/strangers.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/store/store_service.hpp>
#include <sinew/core/system/quiet_thread.hpp>

namespace sinew {
namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when this process or its user has too many descriptors

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

}  // namespace

struct StoreServer::State {
  explicit State(StoreServerOptions o) : options(std::move(o)), service(options.ranks) {}

  /// 0 or the errno: a user has so many watches (fs.epoll.max_user_watches), as it has so many descriptors.
  [[nodiscard]] int watch(int fd, std::uint32_t events, std::uint64_t id) noexcept {
    epoll_event e{};
    e.events = events;
    e.data.u64 = id;
    return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : errno;
  }

  void accept_from(std::uint64_t id, const Listener& listener);
  bool make_room();
  void shut(std::uint64_t id, Clock::time_point until);
  void open_doors();
  void admit(FileDescriptor socket, bool is_unix);
  void serve(std::uint64_t id, std::uint32_t events);
  void sweep();
  void arm(Deadline next);

  StoreServerOptions options;
  FileDescriptor epoll;
  FileDescriptor timer;
  std::map<std::uint64_t, Listener> listeners;
  std::map<std::uint64_t, std::unique_ptr<StoreConnection>> connections;
  std::set<std::uint64_t> strangers;                      // connections without a proof
  std::map<std::uint64_t, Clock::time_point> shut_doors;  // listeners that are not watched, until when
  StoreService service;
  std::uint64_t next_id = 1;  // 0 is the timer
};

StoreServer::StoreServer(StoreServerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->epoll = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  state_->timer = FileDescriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!state_->epoll || !state_->timer) throw_errno("store: making the server's descriptors");
  if (const int error = state_->watch(state_->timer.get(), EPOLLIN, 0); error != 0) {
    throw_errno("store: watching the timer", error);
  }
}

StoreServer::~StoreServer() = default;

void StoreServer::listen(Listener listener) {
  const std::uint64_t id = state_->next_id++;
  if (const int error = state_->watch(listener.socket.get(), EPOLLIN, id); error != 0) {
    throw_errno("store: watching a listener", error);
  }
  state_->listeners.emplace(id, std::move(listener));
}

int StoreServer::descriptor() const noexcept { return state_->epoll.get(); }

bool StoreServer::idle() const noexcept {
  for (const auto& [id, c] : state_->connections) {
    if (!c->finished() && !c->idle()) return false;
  }
  return true;
}

bool StoreServer::poll(int wait_ms) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(state_->epoll.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    if (const auto l = state_->listeners.find(id); l != state_->listeners.end()) {
      state_->accept_from(id, l->second);
    } else if (id != 0) {
      state_->serve(id, events[static_cast<std::size_t>(i)].events);
    }
  }
  if (count > 0) state_->sweep();
  return count > 0;
}

void StoreServer::lose(int rank, const std::string& why) { state_->service.lose(rank, why); }

void StoreServer::State::accept_from(std::uint64_t id, const Listener& listener) {
  for (;;) {
    if (!listener.address.is_unix() && !make_room()) {
      const auto came = [this](std::uint64_t s) { return connections.at(s)->clock.since(); };
      return shut(id, came(*std::ranges::min_element(strangers, {}, came)) + Strangers::kAtLeast);
    }
    FileDescriptor socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      admit(std::move(socket), listener.address.is_unix());
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      shut(id, Clock::now() + kAcceptPause);
    }
    return;
  }
}

/// false: all places are taken, by strangers who have not had their time.
bool StoreServer::State::make_room() {
  if (strangers.size() < Strangers::kPlaces) return true;
  const auto has_had_its_time = [this](std::uint64_t id) {
    return Clock::now() - connections.at(id)->clock.since() >= Strangers::kAtLeast;
  };
  for (const std::uint64_t id : std::vector(strangers.begin(), strangers.end())) {
    if (!has_had_its_time(id)) continue;
    serve(id, 0);  // once more: this side may have been slow
    if (!strangers.contains(id)) return true;
    if (!has_had_its_time(id)) continue;
    strangers.erase(id);
    connections.erase(id);  // no request of it has come to the service
    return true;
  }
  return false;
}

/// A watched listener would wake us for nothing.
void StoreServer::State::shut(std::uint64_t id, Clock::time_point until) {
  if (shut_doors.emplace(id, until).second) {
    ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, listeners.at(id).socket.get(), nullptr);
  }
}

void StoreServer::State::open_doors() {
  for (auto door = shut_doors.begin(); door != shut_doors.end();) {
    if (Clock::now() < door->second) {
      ++door;
      continue;
    }
    if (watch(listeners.at(door->first).socket.get(), EPOLLIN, door->first) == 0) {
      door = shut_doors.erase(door);
    } else {
      (door++)->second = Clock::now() + kAcceptPause;
    }
  }
}

void StoreServer::State::admit(FileDescriptor socket, bool is_unix) {
  if (is_unix && !same_user(socket.get())) return;
  const std::uint64_t id = next_id++;
  if (watch(socket.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, id) != 0) return;  // it comes again
  std::optional<Authentication> proof;
  if (!is_unix) proof = Authentication::acceptor(options.secret, AuthClaim{.service = kStoreService});
  Socket conversation(std::move(socket), Socket::End::Accepts, is_unix ? nullptr : options.tls);
  auto connection =
      std::make_unique<StoreConnection>(std::move(conversation), std::move(proof), options.longest_request);
  if (is_unix) {
    connection->send(framed(StoreWelcome{options.host, ::getpid(), options.secret, options.elsewhere}.encode()));
    if (!options.elsewhere.empty()) connection->close_after_flush();
  }
  connections.emplace(id, std::move(connection));
  if (!is_unix) strangers.insert(id);
}

void StoreServer::State::serve(std::uint64_t id, std::uint32_t events) {
  const auto it = connections.find(id);
  if (it == connections.end()) return;
  StoreConnection& c = *it->second;
  if ((events & EPOLLOUT) != 0) c.flush();
  c.read([&](const Bytes& request) { service.handle(c, request); });
  if (!c.unproven()) strangers.erase(id);
}

/// Drops connections that ended, answers whoever waited too long, and sets the timer for the next deadline.
void StoreServer::State::sweep() {
  Deadline next = service.expire();
  for (auto it = connections.begin(); it != connections.end();) {
    StoreConnection& c = *it->second;
    const Deadline leaves(c.clock.since() + Strangers::kAtMost);
    if (c.finished() || (c.unproven() && leaves.passed())) {
      service.forget(c);
      strangers.erase(it->first);
      it = connections.erase(it);
      continue;
    }
    if (c.unproven() && leaves.at() < next.at()) next = leaves;
    ++it;
  }
  open_doors();
  for (const auto& [id, until] : shut_doors) {
    if (until < next.at()) next = Deadline(until);
  }
  arm(next);
}

void StoreServer::State::arm(Deadline next) {
  itimerspec spec{};
  if (next.at() != Clock::time_point::max()) {
    const auto left = std::max<Duration>(next.at() - Clock::now(), std::chrono::milliseconds(1));
    spec.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    spec.it_value.tv_nsec = (left % std::chrono::seconds(1)).count();
  }
  ::timerfd_settime(timer.get(), 0, &spec, nullptr);
}

StoreServerThread::StoreServerThread(std::unique_ptr<StoreServer> server)
    : server_(std::move(server)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw_errno("store: making the server's descriptors");
  thread_ = quiet_thread([this] { run(); });
}

StoreServerThread::~StoreServerThread() {
  if (fork_.in_child()) {  // which has no such thread, as its objects end when it exits
    thread_.detach();
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void StoreServerThread::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void StoreServerThread::lose(int rank, const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    lost_.emplace_back(rank, why);
  }
  wake();
}

/// Does what it was told meanwhile; false: to stop.
bool StoreServerThread::obey() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(wake_.get(), &count, sizeof count);
  const std::scoped_lock lock(mutex_);
  for (const auto& [rank, why] : std::exchange(lost_, {})) server_->lose(rank, why);
  return !stop_;
}

void StoreServerThread::run() {
  std::array<pollfd, 2> wait{{{server_->descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  while (obey()) {
    ::poll(wait.data(), wait.size(), -1);
    while (server_->poll()) {
    }
  }
  const Deadline drained = Deadline::after(std::chrono::seconds(5));
  while (!server_->idle() && !drained.passed()) server_->poll(100);
}

}  // namespace sinew
