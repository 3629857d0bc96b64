#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/acceptor.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/relay_clients.hpp>
#include <sinew/core/store/relay_service.hpp>
#include <sinew/core/store/store_connection.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/store/store_service.hpp>
#include <sinew/core/system/thread_without_signals.hpp>

namespace sinew {
namespace {

/// Calls `f`, which serves this connection. An exception ends the connection, and not the process.
template <class F>
void serve_guarded(StoreConnection& connection, F&& f) try {
  f();
} catch (const std::exception& e) {
  log::warning("the store drops a connection: {}", e.what());
  connection.end(e.what());
}

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
        tree(options.fan_out),
        next_sweep(l) {
    if (options.relay) handler = &relay;
    const bool launcher = options.host == StoreHost::Launcher;
    relays.push_back({.name = launcher ? "the launcher" : "rank 0", .rank = launcher ? -1 : 0});
  }

  struct Client {
    std::unique_ptr<StoreConnection> connection;
    std::unique_ptr<RelayClients> behind{};  // of a relay
    EventLoop::Watch watch{};                // destroyed before the socket that it watches
    bool has_left = false;
  };
  /// A relay as the server of the store knows it.
  struct KnownRelay {
    std::string name;
    std::string addresses{};
    std::uint64_t instance = 0;
    int rank = -1;
  };
  /// The host, the process and the service of a relay, by which the server knows it again.
  using RelayProcess = std::tuple<std::string, int, std::uint64_t>;

  void welcome(FileDescriptor socket);
  StoreConnection* admit(Socket socket);
  void serve(std::uint64_t id);
  void take_request(Client& client, const Bytes& request);
  void attach(Client& client, const Bytes& request);
  void read_parent();
  void cut_off(const Status& why);
  void sweep_soon();
  void sweep();
  Deadline expire();
  void send_answers(Client& client);
  void drop_ended();
  void leave(Client& client);

  EventLoop& loop;
  StoreServerOptions options;
  std::list<Acceptor> unix_sockets;
  StoreService service;
  RelayService relay;
  StoreHandler* handler = &service;
  RelayTree tree;
  std::vector<KnownRelay> relays;       // by number; 0 is this server
  std::map<RelayProcess, int> numbers;  // of these relays
  std::map<std::uint64_t, Client> clients;
  RelayParent parent;
  std::optional<FramedStream> to_parent;
  EventLoop::Watch parent_watch;  // destroyed before the socket that it watches
  std::uint64_t next_id = 0;
  EventLoop::Timer next_sweep;
  bool sweeps_soon = false;
  std::atomic<bool> over = false;
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

void StoreServer::lead_to(Socket connection, const RelayParent& parent) {
  State& s = *state_;
  constexpr std::size_t kLongestAnswers = (1ull << 32) - 1;  // an all-gather has the bytes of all ranks
  s.parent = parent;
  s.to_parent.emplace(std::move(connection), kLongestAnswers);
  try {
    keep_alive(s.to_parent->descriptor(), true);
    s.parent_watch = s.loop.watch(s.to_parent->descriptor(), {.read = true}, [state = &s] { state->read_parent(); });
    s.relay.lead_to([state = &s](const Bytes& batch) { state->to_parent->send(FramedStream::frame(batch)); });
  } catch (const std::exception& e) {
    s.to_parent->end(e.what());
  }
  s.read_parent();  // TLS may have read bytes already, for which no event comes
}

bool StoreServer::is_over() const noexcept { return state_->over; }

bool StoreServer::idle() const noexcept {
  return std::ranges::all_of(state_->clients, [](const auto& entry) {
    const StoreConnection& c = *entry.second.connection;
    const bool has_answers = entry.second.behind && entry.second.behind->has_answers();
    return c.finished() || (c.idle() && !has_answers);
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
  const StoreWelcome welcome{options.host, ::getpid(), options.secret, options.elsewhere,
                             options.relay ? options.relay->rank : -1};
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
  serve_guarded(c, [&] {
    c.flush();
    c.read([&](const Bytes& request) { take_request(it->second, request); });
  });
  if (c.finished()) leave(it->second);  // at once: the next connection may be of a process that follows this one
}

void StoreServer::State::take_request(Client& client, const Bytes& request) {
  if (!client.behind) {
    const bool attaches = !request.empty() && static_cast<StoreOp>(request.front()) == StoreOp::Attach;
    return attaches ? attach(client, request) : handler->handle(*client.connection, request);
  }
  client.behind->take(request);
}

/// A relay has come. The server of the store finds its place. At a relay it stays, because the server has sent it
/// there.
void StoreServer::State::attach(Client& client, const Bytes& request) try {
  WireReader reader(request);
  static_cast<void>(reader.value<StoreOp>());
  static_cast<void>(reader.value<std::uint32_t>());
  RelayIntroduction who = RelayIntroduction::decode(reader.bytes());
  RelayParent place{.number = who.number};
  if (handler == &service) {
    const auto known = numbers.find({who.host, who.pid, who.instance});
    const bool again = known != numbers.end();
    if (!again) service.require_unmet();
    const RelayTree::Place at = again ? tree.add_again(known->second, who.unreachable) : tree.add();
    if (!again) {
      numbers.emplace(RelayProcess(who.host, who.pid, who.instance), at.number);
      relays.push_back({who.name(), who.addresses, who.instance, who.rank});
    }
    const KnownRelay& above = relays[static_cast<std::size_t>(at.parent)];
    place = {at.number, at.parent, above.addresses, above.instance, above.name, above.rank};
    log::debug("{} is relay {}, below {}", who.name(), at.number, at.parent);
  } else if (relay.cut_by()) {
    throw Error(Code::Unavailable, std::string(relay.cut_by()->message()), relay.cut_by()->rank());
  }
  client.connection->send(framed_reply(place.encode()));
  if (place.addresses.empty()) {
    keep_alive(client.connection->descriptor(), true);
    client.connection->allow(kLongestBatch + options.longest_request);  // a batch may be one request alone
    client.behind = std::make_unique<RelayClients>(*handler, std::move(who));
  } else {
    client.connection->close_after_flush();
  }
} catch (const Error& e) {
  client.connection->send(framed_reply(status_of(e)));
  client.connection->close_after_flush();
}

/// Takes what the parent has sent. If its connection has ended, the clients are told.
void StoreServer::State::read_parent() {
  to_parent->flush();
  try {
    to_parent->read([this](const Bytes& batch) { relay.take(batch); });
  } catch (const Error& e) {
    to_parent->end(e.what());
  }
  if (relay.cut_by()) {  // the parent said so
    cut_off(*relay.cut_by());
  } else if (to_parent->ended()) {
    cut_off(Status(Code::PeerLost,
                   fmt::format("{}, which leads {} to the store, is gone ({})", parent.name, options.relay->name(),
                               to_parent->reason()),
                   parent.rank));
  }
  sweep_soon();
}

/// This relay does not reach the store any more. It tells its clients and the relays below. Later clients may be of
/// another start. They find no listener here, and make another relay.
void StoreServer::State::cut_off(const Status& why) {
  parent_watch = {};
  to_parent.reset();
  relay.cut(why);
  for (auto& [id, client] : clients) {
    if (client.behind) client.behind->tell_cut(why);
  }
  unix_sockets.clear();
  if (options.cut) options.cut();
}

/// A sweep looks at all clients: one for all events that come together.
void StoreServer::State::sweep_soon() {
  if (!std::exchange(sweeps_soon, true)) next_sweep.start(Clock::now(), [this] { sweep(); });
}

/// Drops connections that have ended. Their ends may give others an answer.
void StoreServer::State::drop_ended() {
  for (auto it = clients.begin(); it != clients.end();) {
    StoreConnection& c = *it->second.connection;
    if (!c.finished()) {
      ++it;
      continue;
    }
    leave(it->second);
    it = clients.erase(it);
  }
}

/// Tells those who wait for this client. A second call does nothing.
void StoreServer::State::leave(Client& client) {
  if (std::exchange(client.has_left, true)) return;
  serve_guarded(*client.connection, [&] {
    if (client.behind) {
      client.behind->cut(client.connection->reason());
    } else {
      handler->forget(*client.connection, {});
    }
  });
}

/// Does what is due. If a relay cannot do it, the connection to its parent ends.
Deadline StoreServer::State::expire() {
  Deadline next = Deadline::after(std::chrono::seconds(1));
  try {
    next = handler->expire();
    if (to_parent && !to_parent->ended()) parent_watch.want(to_parent->interest());
  } catch (const std::exception& e) {
    log::warning("the store has failed to answer: {}", e.what());
    if (to_parent) to_parent->end(e.what());
  }
  if (to_parent && to_parent->ended()) read_parent();
  return next;
}

void StoreServer::State::send_answers(Client& client) {
  StoreConnection& c = *client.connection;
  if (client.behind) {
    for (const Bytes& batch : client.behind->answers()) c.send(FramedStream::frame(batch));
  }
  if (!c.finished()) client.watch.want(c.interest());
}

/// Drops connections that have ended, and answers requests whose deadlines have passed. Then sets the events for which
/// the sockets are watched, and the timer for the next deadline.
void StoreServer::State::sweep() {
  sweeps_soon = false;
  drop_ended();
  const Deadline next = expire();
  for (auto& [id, client] : clients) {
    StoreConnection& c = *client.connection;
    serve_guarded(c, [&, of = &client] { send_answers(*of); });
    if (c.finished()) sweep_soon();  // it has ended since
  }
  over = relay.cut_by() && clients.empty();
  if (sweeps_soon) return;
  if (next.at() == Clock::time_point::max()) return next_sweep.stop();
  next_sweep.start(std::max(next.at(), Clock::now() + std::chrono::milliseconds(1)), [this] { sweep(); });
}

StoreServerThread::StoreServerThread(StoreServerOptions options)
    : secret_(options.secret), server_(loop_, with_cut(std::move(options))) {
  thread_ = thread_without_signals([this] { run(); });
}

StoreServerOptions StoreServerThread::with_cut(StoreServerOptions options) {
  options.cut = [this, then = std::move(options.cut)] {
    service_ = {};
    if (then) then();
  };
  return options;
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

void StoreServerThread::lead_to(Socket connection, const RelayParent& parent) {
  loop_.post([this, socket = std::make_shared<Socket>(std::move(connection)), parent] {
    server_.lead_to(std::move(*socket), parent);
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
