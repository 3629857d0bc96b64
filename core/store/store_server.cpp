#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <list>
#include <map>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/net/acceptor.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/store/store_service.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

}  // namespace

struct StoreServer::State {
  State(EventLoop& l, StoreServerOptions o)
      : loop(l),
        options(std::move(o)),
        service({.ranks = options.ranks, .meets_once = options.host == StoreHost::Rank, .notice = options.notice},
                options.elastic),
        next_sweep(loop) {}

  struct Client {
    std::unique_ptr<StoreConnection> connection;
    EventLoop::Watch watch{};  // destroyed before the socket that it watches
  };

  void welcome(FileDescriptor socket);
  StoreConnection* admit(Socket socket);
  void serve(std::uint64_t id);
  void sweep_soon();
  void sweep();

  EventLoop& loop;
  StoreServerOptions options;
  std::list<Acceptor> unix_sockets;
  std::map<std::uint64_t, Client> clients;
  StoreService service;
  std::uint64_t next_id = 0;
  EventLoop::Timer next_sweep;
  bool sweeps_soon = false;
};

StoreServer::StoreServer(EventLoop& loop, StoreServerOptions options)
    : state_(std::make_unique<State>(loop, std::move(options))) {}

StoreServer::~StoreServer() = default;

void StoreServer::listen(Listener unix_socket) {
  state_->unix_sockets.emplace_back(
      state_->loop, std::move(unix_socket), [] { return true; },
      [s = state_.get()](FileDescriptor socket) { s->welcome(std::move(socket)); });
}

void StoreServer::take(Socket client) { state_->admit(std::move(client)); }

bool StoreServer::idle() const noexcept {
  return std::ranges::all_of(state_->clients, [](const auto& entry) {
    const StoreConnection& c = *entry.second.connection;
    return c.finished() || c.idle();
  });
}

bool StoreServer::has_untold_ranks() const { return state_->service.has_untold_ranks(); }

void StoreServer::lose(int rank, const std::string& why) {
  state_->service.lose(rank, why);
  state_->sweep_soon();
}

void StoreServer::expect(int processes) {
  if (ElasticMembers* members = state_->service.membership()) members->expect(processes);
  state_->service.form_rounds();
  state_->sweep_soon();
}

void StoreServer::end_rounds(const std::string& why) {
  state_->service.end_rounds(why);
  state_->sweep_soon();
}

void StoreServer::ask_for_refused(std::function<std::string()> refused) {
  state_->service.ask_for_refused(std::move(refused));
}

void StoreServer::State::welcome(FileDescriptor socket) {
  if (!same_user(socket.get())) return;
  StoreConnection* client = admit(Socket(std::move(socket), Socket::End::Accepts, nullptr));
  if (client == nullptr) return;
  const StoreWelcome welcome{options.host, ::getpid(), options.secret, options.elsewhere};
  client->send(FramedStream::frame(welcome.encode()));
  if (!options.elsewhere.empty()) client->close_after_flush();
}

/// Adds a client. Returns null if the user has too many watches (fs.epoll.max_user_watches): the client connects again.
StoreConnection* StoreServer::State::admit(Socket socket) {
  const std::uint64_t id = next_id++;
  const int descriptor = socket.get();
  Client client{std::make_unique<StoreConnection>(std::move(socket), options.longest_request)};
  const auto ready = [this, id] {
    serve(id);
    sweep_soon();
  };
  try {
    client.watch = loop.watch(descriptor, {.read = true}, ready);
  } catch (const Error&) {
    return nullptr;
  }
  const auto at = clients.emplace(id, std::move(client)).first;
  ready();  // TLS may have read bytes already, for which no event comes
  return at->second.connection.get();
}

void StoreServer::State::serve(std::uint64_t id) {
  const auto it = clients.find(id);
  if (it == clients.end()) return;
  StoreConnection& c = *it->second.connection;
  c.flush();
  c.read([&](const Bytes& request) { service.handle(c, request); });
  if (c.finished()) service.forget(c);  // at once: the next connection may be of a process that follows this one
}

/// A sweep looks at all clients: one for all events that come together.
void StoreServer::State::sweep_soon() {
  if (!std::exchange(sweeps_soon, true)) next_sweep.start(Clock::now(), [this] { sweep(); });
}

/// Drops connections that have ended, and answers requests whose deadlines have passed. Then sets the events for which
/// the sockets are watched, and the timer for the next deadline.
void StoreServer::State::sweep() {
  sweeps_soon = false;
  const Deadline next = service.expire();
  for (auto it = clients.begin(); it != clients.end();) {
    StoreConnection& c = *it->second.connection;
    if (c.finished()) {
      service.forget(c);
      it = clients.erase(it);
      continue;
    }
    it->second.watch.want(c.interest());
    ++it;
  }
  if (next.at() == Clock::time_point::max()) return next_sweep.stop();
  next_sweep.start(std::max(next.at(), Clock::now() + std::chrono::milliseconds(1)), [this] { sweep(); });
}

StoreServerThread::StoreServerThread(StoreServerOptions options)
    : secret_(options.secret), server_(loop_, std::move(options)) {
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

void StoreServerThread::listen(Listener unix_socket) {
  std::packaged_task<void()> task([&] { server_.listen(std::move(unix_socket)); });
  std::future<void> over = task.get_future();
  loop_.post([&task] { task(); });
  over.get();
}

void StoreServerThread::serve(std::shared_ptr<ListeningPort> port, std::uint64_t instance) {
  port_ = std::move(port);
  loop_.post([this, port = port_] { server_.ask_for_refused([port] { return port->refused(); }); });
  service_ =
      port_->serve({.service = kStoreService, .instance = instance}, secret_, [this](const AuthClaim&, Socket socket) {
        keep_alive(socket.get(), true);  // a client whose host or network fails leaves
        loop_.post([this, client = std::make_shared<Socket>(std::move(socket))] { server_.take(std::move(*client)); });
      });
}

void StoreServerThread::lose(int rank, const std::string& why) {
  loop_.post([this, rank, why] { server_.lose(rank, why); });
}

void StoreServerThread::expect(int processes) {
  loop_.post([this, processes] { server_.expect(processes); });
}

void StoreServerThread::end_rounds(const std::string& why) {
  loop_.post([this, why] { server_.end_rounds(why); });
}

void StoreServerThread::run() {
  loop_.run();
  const Deadline drained = Deadline::after(std::chrono::seconds(5));
  while ((!server_.idle() || server_.has_untold_ranks()) && !drained.passed())
    loop_.run_once(Deadline::after(std::chrono::milliseconds(100)));
}

}  // namespace sinew
