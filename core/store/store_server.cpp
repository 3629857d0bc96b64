#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/net/strangers.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/store/store_service.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

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
  State(EventLoop& l, StoreServerOptions o)
      : loop(l), options(std::move(o)), service(options.ranks), next_sweep(loop) {}

  // In both structs the watch is the last member, because it must end before its socket is closed.
  struct Door {
    Listener listener;
    EventLoop::Watch watch{};
  };
  struct Client {
    std::unique_ptr<StoreConnection> connection;
    EventLoop::Watch watch{};
  };

  void accept_from(std::uint64_t id);
  bool make_room();
  void shut(std::uint64_t id, Clock::time_point until);
  void open_doors();
  void admit(FileDescriptor socket, bool is_unix);
  void serve(std::uint64_t id);
  void sweep_soon();
  void sweep();

  EventLoop& loop;
  StoreServerOptions options;
  std::map<std::uint64_t, Door> doors;
  std::map<std::uint64_t, Client> clients;
  std::set<std::uint64_t> strangers;                      // clients without a proof
  std::map<std::uint64_t, Clock::time_point> shut_doors;  // that are not watched, until when
  StoreService service;
  std::uint64_t next_id = 0;
  EventLoop::Timer next_sweep;
  bool sweeps_soon = false;
};

StoreServer::StoreServer(EventLoop& loop, StoreServerOptions options)
    : state_(std::make_unique<State>(loop, std::move(options))) {}

StoreServer::~StoreServer() = default;

void StoreServer::listen(Listener listener) {
  const std::uint64_t id = state_->next_id++;
  const int socket = listener.socket.get();
  const auto came = [s = state_.get(), id] {
    s->accept_from(id);
    s->sweep_soon();
  };
  EventLoop::Watch watch = state_->loop.watch(socket, {.read = true}, came);
  state_->doors.emplace(id, State::Door{std::move(listener), std::move(watch)});
}

bool StoreServer::idle() const noexcept {
  return std::ranges::all_of(state_->clients, [](const auto& entry) {
    const StoreConnection& c = *entry.second.connection;
    return c.finished() || c.idle();
  });
}

void StoreServer::lose(int rank, const std::string& why) {
  state_->service.lose(rank, why);
  state_->sweep_soon();
}

void StoreServer::State::accept_from(std::uint64_t id) {
  const Listener& listener = doors.at(id).listener;
  for (;;) {
    if (!listener.address.is_unix() && !make_room()) {
      const auto came = [this](std::uint64_t s) { return clients.at(s).connection->clock.since(); };
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
    return Clock::now() - clients.at(id).connection->clock.since() >= Strangers::kAtLeast;
  };
  for (const std::uint64_t id : std::vector(strangers.begin(), strangers.end())) {
    if (!has_had_its_time(id)) continue;
    serve(id);  // once more: this side may have been slow
    if (!strangers.contains(id)) return true;
    if (!has_had_its_time(id)) continue;
    strangers.erase(id);
    clients.erase(id);  // no request of it has come to the service
    return true;
  }
  return false;
}

/// A watched listener would wake us for nothing.
void StoreServer::State::shut(std::uint64_t id, Clock::time_point until) {
  if (shut_doors.emplace(id, until).second) doors.at(id).watch.want({});
}

void StoreServer::State::open_doors() {
  for (auto door = shut_doors.begin(); door != shut_doors.end();) {
    if (Clock::now() < door->second) {
      ++door;
      continue;
    }
    doors.at(door->first).watch.want({.read = true});
    door = shut_doors.erase(door);
  }
}

void StoreServer::State::admit(FileDescriptor socket, bool is_unix) {
  if (is_unix && !same_user(socket.get())) return;
  const std::uint64_t id = next_id++;
  const int descriptor = socket.get();
  std::optional<Authentication> proof;
  if (!is_unix) proof = Authentication::acceptor(options.secret, AuthClaim{.service = kStoreService});
  Socket conversation(std::move(socket), Socket::End::Accepts, is_unix ? nullptr : options.tls);
  auto connection =
      std::make_unique<StoreConnection>(std::move(conversation), std::move(proof), options.longest_request);
  const auto ready = [this, id] {
    serve(id);
    sweep_soon();
  };
  try {
    Client client{std::move(connection)};
    client.watch = loop.watch(descriptor, {.read = true}, ready);
    if (is_unix) {
      client.connection->send(
          framed(StoreWelcome{options.host, ::getpid(), options.secret, options.elsewhere}.encode()));
      if (!options.elsewhere.empty()) client.connection->close_after_flush();
    }
    clients.emplace(id, std::move(client));
  } catch (const Error&) {
    return;  // its user has too many watches (fs.epoll.max_user_watches): it comes again
  }
  if (!is_unix) strangers.insert(id);
}

void StoreServer::State::serve(std::uint64_t id) {
  const auto it = clients.find(id);
  if (it == clients.end()) return;
  StoreConnection& c = *it->second.connection;
  c.flush();
  c.read([&](const Bytes& request) { service.handle(c, request); });
  if (!c.unproven()) strangers.erase(id);
}

/// A sweep looks at all clients: one for all events that come together.
void StoreServer::State::sweep_soon() {
  if (!std::exchange(sweeps_soon, true)) next_sweep.start(Clock::now(), [this] { sweep(); });
}

/// Drops connections that ended, answers whoever waited too long, has sockets watched for what they are needed for, and
/// sets the timer for the next deadline.
void StoreServer::State::sweep() {
  sweeps_soon = false;
  Deadline next = service.expire();
  for (auto it = clients.begin(); it != clients.end();) {
    StoreConnection& c = *it->second.connection;
    const Deadline leaves(c.clock.since() + Strangers::kAtMost);
    if (c.finished() || (c.unproven() && leaves.passed())) {
      service.forget(c);
      strangers.erase(it->first);
      it = clients.erase(it);
      continue;
    }
    it->second.watch.want({.read = c.reads(), .write = !c.idle()});
    if (c.unproven() && leaves.at() < next.at()) next = leaves;
    ++it;
  }
  open_doors();
  for (const auto& [id, until] : shut_doors) {
    if (until < next.at()) next = Deadline(until);
  }
  if (next.at() == Clock::time_point::max()) return next_sweep.stop();
  next_sweep.start(std::max(next.at(), Clock::now() + std::chrono::milliseconds(1)), [this] { sweep(); });
}

StoreServerThread::StoreServerThread(StoreServerOptions options) : server_(loop_, std::move(options)) {
  thread_ = thread_without_signals([this] { run(); });
}

StoreServerThread::~StoreServerThread() {
  if (fork_.in_child()) {  // which has no such thread, as its objects end when it exits
    thread_.detach();
    return;
  }
  loop_.stop();
  thread_.join();
}

void StoreServerThread::listen(Listener listener) {
  std::packaged_task<void()> task([&] { server_.listen(std::move(listener)); });
  std::future<void> over = task.get_future();
  loop_.post([&task] { task(); });
  over.get();
}

void StoreServerThread::lose(int rank, const std::string& why) {
  loop_.post([this, rank, why] { server_.lose(rank, why); });
}

void StoreServerThread::run() {
  loop_.run();
  const Deadline drained = Deadline::after(std::chrono::seconds(5));
  while (!server_.idle() && !drained.passed()) loop_.run_once(Deadline::after(std::chrono::milliseconds(100)));
}

}  // namespace sinew
