#include "agent.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/host_relay.hpp>
#include <sinew/collectives/launch/launch.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/net/socket_address.hpp>
#include <sinew/core/store/relay_search.hpp>
#include <sinew/core/store/relay_tree.hpp>
#include <sinew/core/store/store_server.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/tools/run/output/outlet.hpp>

#include "agent_protocol.hpp"
#include "local_ranks.hpp"
#include "signals.hpp"

namespace sinew::run {
namespace {

void read_whole(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(0, into.data(), into.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      throw Error(Code::InvalidArgument,
                  "--agent: expected a task on standard input; it is for sinew-run itself to use");
    }
    if (got > 0) into = into.subspan(static_cast<std::size_t>(got));
  }
}

AgentTask read_task() {
  constexpr std::uint32_t kLongestTask = 64u << 20;
  std::uint32_t length = 0;
  read_whole(std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestTask) throw Error(Code::Mismatch, "--agent: standard input holds no task");
  Bytes task(length);
  read_whole(task);
  return AgentTask::decode(task);
}

/// Two names of one host, or namespaces that share a network: who came first serves the ranks of both. Places bear the
/// job's name, so it is of this job, and need not answer: it may be busy with starting its ranks.
void serve_unless_served(StoreServer& door, const SocketAddress& place) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  for (;;) {
    try {
      return door.listen(listen_on(place));
    } catch (const Error&) {
      const int error = try_connect({place}, deadline).second;
      if (error == 0 || error == EAGAIN) return;  // EAGAIN: more wait there than may
      if (deadline.passed()) throw;
    }
    ::usleep(1000);  // it does not listen yet, or not any more
  }
}

/// The settings that travel to the ranks, for the agent's own connections.
Config config_of(const LocalPlan& plan) {
  Config config;
  for (const char* name : {"SINEW_INTERFACE", "SINEW_PORTS", "SINEW_TLS", "SINEW_TLS_CERTIFICATE", "SINEW_TLS_KEY",
                           "SINEW_TLS_CA", "SINEW_TIMEOUT"}) {
    if (const auto value = value_of(plan.environment, name)) config.set(fmt::format("{}={}", name, *value));
  }
  return config;
}

/// True if the agent is a node of the tree over which the ranks of many hosts reach the store. Small jobs have no tree.
bool is_relay(const AgentTask& task) {
  const Lookup travelling = [&task](const char* name) { return value_of(task.plan.environment, name); };
  return !task.store.empty() && !task.plan.elastic && task.plan.ranks >= start_tree(travelling).from_ranks;
}

/// `cut`: StoreServerOptions::cut.
StoreServerOptions door_of(const AgentTask& task, std::function<void()> cut) {
  StoreServerOptions options{.secret = task.secret, .host = StoreHost::Launcher, .cut = std::move(cut)};
  if (is_relay(task)) {
    options.relay = RelayIntroduction{.host = host_name(), .pid = ::getpid()};
  } else {
    options.elsewhere = task.store;
  }
  return options;
}

class Agent {
 public:
  explicit Agent(const AgentTask& task)
      : out_(loop_, STDOUT_FILENO, said()),
        door_(loop_, door_of(task, [this] { agents_come_ = {}; })),
        ranks_(loop_, reporting()) {
    out_.put(kAgentGreeting);
    serve_unless_served(door_, bootstrap_address(task.master_port, task.job));
    signals_come_ = loop_.watch(signals_.descriptor(), {.read = true}, [this] { on_signals(); });
    orders_come_ = loop_.watch(STDIN_FILENO, {.read = true}, [this] { hear(); });
  }

  /// The exit code.
  int run(const AgentTask& task) {
    bool broken = false;
    try {
      if (is_relay(task)) join_tree(task);
      if (!told_to_end_) ranks_.start(task.plan);
      obey_orders();
    } catch (const Error& e) {
      say(FrameKind::Broken, -1, e.what());
      broken = true;
    }
    while (!told_to_end_ && ((ranks_.running() != 0 && !broken) || out_.waiting() != 0))
      loop_.run_once(Deadline::never());
    return broken ? 2 : 0;
  }

 private:
  /// Lets further agents connect to this one, and connects to the store or to the agent that leads there.
  void join_tree(const AgentTask& task) {
    const Config config = config_of(task.plan);
    const auto tls = TlsContext::open(config.tls);
    port_.emplace(loop_, listen_everywhere(0, config.ports), tls);
    const std::uint64_t instance = random_id();
    agents_come_ = port_->serve({.service = kStoreService, .instance = instance}, task.secret,
                                [this](const AuthClaim&, Socket agent) { door_.take(std::move(agent)); });
    const RelayIntroduction self{.host = host_name(),
                                 .pid = ::getpid(),
                                 .addresses = format_addresses(reachable_addresses(config.interface, port_->number())),
                                 .instance = instance};
    StoreClient::Options store{.addresses = parse_addresses(task.store), .secret = task.secret, .tls = tls};
    store.timeout = config.timeout;
    store.may_come = [this] { return !ends_within({}); };
    if (ends_within(relay_wait(task.plan.first))) return;
    try {
      auto [connection, parent] = find_relay_parent(store, self, Deadline::after(config.timeout));
      door_.lead_to(std::move(connection), parent);
    } catch (const Error&) {
      if (!told_to_end_) throw;
    }
  }
  /// Listens to sinew-run while the loop does not run. Returns true as soon as sinew-run ends this agent. Orders wait
  /// until the ranks have started.
  bool ends_within(Duration time) {
    const Deadline deadline = Deadline::after(time);
    while (!told_to_end_) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      const int ready = ::poll(&input, 1, deadline.left_ms(60000));
      if (ready > 0) receive();
      if (ready == 0 && deadline.passed()) break;
    }
    return told_to_end_;
  }
  Outlet::Events said() {
    return {.full =
                [this](bool full) {
                  for (const Stream stream : {Stream::Output, Stream::Errors}) ranks_.hold_all(stream, full);
                },
            .refused = [](int) { ::_exit(1); }};  // the sinew-run that started us is gone: the ranks end with us
  }
  RankEvents reporting() {
    RankEvents events;
    events.output = [this](Source source, std::string_view bytes) {
      say(source.second == Stream::Output ? FrameKind::Output : FrameKind::Errors, source.first, bytes);
    };
    events.ended = [this](int rank, const Ending& ending) { say(FrameKind::Ended, rank, encode_ending(ending)); };
    events.warned = [this](const std::string& why) { say(FrameKind::Warned, -1, why); };
    return events;
  }
  void say(FrameKind kind, int rank, std::string_view payload) { out_.put(encode_frame(kind, rank, payload)); }
  void on_signals() {
    while (signals_.next() != 0) {
    }
    ranks_.reap();
  }
  void hear() {
    receive();
    obey_orders();
  }
  void receive() {
    std::array<char, 4096> bytes;
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got == 0) told_to_end_ = true;
    if (got > 0) orders_.append(bytes.data(), static_cast<std::size_t>(got));
  }
  void obey_orders() {
    for (; orders_.size() >= AgentOrder::kBytes; orders_.erase(0, AgentOrder::kBytes)) {
      obey(AgentOrder::decode(std::string_view(orders_).substr(0, AgentOrder::kBytes)));
    }
  }
  void obey(const AgentOrder& order) {
    switch (order.kind) {
      case AgentOrder::Kind::Signal: return ranks_.signal(order.number);
      case AgentOrder::Kind::Hold: return ranks_.hold_one({order.number, order.stream}, true);
      case AgentOrder::Kind::Release: return ranks_.hold_one({order.number, order.stream}, false);
    }
  }

  const SignalDescriptor signals_{SIGCHLD};
  EventLoop loop_;
  Outlet out_;
  StoreServer door_;
  std::optional<ListeningPort> port_;  // of a relay
  ListeningPort::Service agents_come_;
  LocalRanks ranks_;
  EventLoop::Watch signals_come_;
  EventLoop::Watch orders_come_;
  std::string orders_;  // of which the last has not come whole
  bool told_to_end_ = false;
};

}  // namespace

int run_agent() {
  const AgentTask task = read_task();
  return Agent(task).run(task);
}

}  // namespace sinew::run
