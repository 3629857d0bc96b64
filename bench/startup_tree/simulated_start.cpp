#include "simulated_start.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/relay_clients.hpp>
#include <sinew/core/store/relay_service.hpp>
#include <sinew/core/store/store_service.hpp>

namespace sinew::bench {
namespace {

using Time = Clock::time_point;

constexpr Duration kBetweenHosts = std::chrono::microseconds(50);  // one way
constexpr Duration kWithinHost = std::chrono::microseconds(10);
constexpr Duration kServeMessage = std::chrono::microseconds(10);
constexpr Duration kAuthenticate = std::chrono::microseconds(100);  // two HMACs, and the system calls of a connection
constexpr double kBytesPerSecond = 1e9;                             // that a process copies into or out of sockets

/// Plans events and runs them at their times. Events of one time happen in the order in which they were planned.
class Events {
 public:
  void at(Time when, std::function<void()> what) { queue_.push({when, next_++, std::move(what)}); }
  Time now() const noexcept { return now_; }
  void run() {
    while (!queue_.empty()) {
      Event event = queue_.top();
      queue_.pop();
      now_ = event.when;
      event.what();
    }
  }

 private:
  struct Event {
    Time when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : number > other.number; }
  };

  std::priority_queue<Event> queue_;
  std::uint64_t next_ = 0;
  Time now_{};
};

/// A process that serves messages, one after the other.
struct Server {
  Time busy_until{};
  std::int64_t waiting = 0;
  std::int64_t most_waiting = 0;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

Duration copying(std::size_t bytes) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / kBytesPerSecond));
}

class Start {
 public:
  explicit Start(const StartPlan& plan)
      : plan_(plan),
        hosts_((plan.ranks + plan.ranks_per_host - 1) / plan.ranks_per_host),
        store_({.ranks = plan.ranks}),
        tree_(plan.fan_out),
        nodes_(static_cast<std::size_t>(hosts_)) {
    nodes_[0].handler = &store_;
    nodes_[0].is_attached = true;
    for (int h = 1; h < hosts_; ++h) {
      Node& node = nodes_[static_cast<std::size_t>(h)];
      node.relay = std::make_unique<RelayService>([this] { return events_.now(); });
      node.handler = node.relay.get();
    }
    node_of_relay_.push_back(0);
  }

  StartCounts run() {
    std::mt19937_64 random(plan_.seed);
    std::uniform_int_distribution<Duration::rep> moment(0, std::max<Duration::rep>(plan_.spread.count(), 0));
    for (int r = 0; r < plan_.ranks; ++r) {
      ranks_.push_back(std::make_unique<Rank>(*this, r, r / plan_.ranks_per_host));
      events_.at(Time(Duration(moment(random))), [this, r] { come(*ranks_[static_cast<std::size_t>(r)]); });
    }
    events_.run();
    for (const auto& rank : ranks_) {
      if (rank->rounds != plan_.rounds)
        throw Error(Code::System,
                    fmt::format("rank {} has done {} of {} rounds", rank->number, rank->rounds, plan_.rounds));
    }
    return counts();
  }

 private:
  struct Node {
    StoreHandler* handler = nullptr;
    std::unique_ptr<RelayService> relay{};
    Server server{};
    int parent = -1;
    std::unique_ptr<RelayClients> at_parent{};  // as the parent sees this relay
    std::vector<int> children{};
    bool is_attached = false;
    bool has_come = false;
    bool is_pulled = false;  // a message with the answers for this relay is on its way
    std::optional<Time> timer{};
  };

  class Rank final : public StoreSeat {
   public:
    Rank(Start& of, int rank, int host) : number(rank), host_(host), of_(of) {}
    void send(std::shared_ptr<const Bytes> frame) override {
      const auto reply = std::span(*frame).subspan(FramedStream::kHeaderBytes);
      of_.sent(host_, frame->size() + of_.contributed(reply));
      of_.events_.at(of_.events_.now() + kWithinHost, [this] { of_.go_on(*this); });
    }
    void close_after_flush() override { throw Error(Code::System, "the store has disconnected a rank"); }

    const int number;
    int host() const noexcept { return host_; }
    int rounds = -1;  // -1: it has not said Hello

   private:
    const int host_;
    Start& of_;
  };

  // The contributions to an all-gather are empty in the simulation's own memory: it could not hold all copies of the
  // answers at once. These functions return how many bytes longer a message is because of them.

  std::size_t contributed_by(std::span<const std::byte> request) const {
    return WireReader(request).value<StoreOp>() == StoreOp::AllGather ? plan_.contribution : 0;
  }
  /// `reply`: to one client.
  std::size_t contributed(std::span<const std::byte> reply) const {
    WireReader reader(reply);
    reader.value<Code>();
    reader.value<int>();
    return reader.left() > 0 ? plan_.contribution * reader.value<std::uint32_t>() : 0;
  }
  std::size_t contributed_up(std::span<const std::byte> batch) const {
    std::size_t all = 0;
    for (WireReader reader(batch); reader.left() > 0;) {
      reader.value<std::uint32_t>();
      reader.value<RelayEvent>();
      all += contributed_by(reader.bytes());
    }
    return all;
  }
  std::size_t contributed_down(std::span<const std::byte> batch) const {
    std::size_t all = 0;
    for (WireReader reader(batch); reader.left() > 0;) {
      for (auto clients = reader.value<std::uint32_t>(); clients > 0; --clients) reader.value<std::uint32_t>();
      reader.value<RelayEvent>();
      all += contributed(reader.bytes());
    }
    return all;
  }

  Node& node(int host) { return nodes_[static_cast<std::size_t>(host)]; }

  /// This host's process has sent a message.
  void sent(int host, std::size_t bytes) {
    Server& server = node(host).server;
    ++server.messages;
    server.bytes += static_cast<std::int64_t>(bytes);
    ++messages_;
    server.busy_until = std::max(server.busy_until, events_.now()) + copying(bytes);
    if (host == 0) ++root_since_round_;
  }

  /// A message has arrived at this host's process, which serves it when it has served those before.
  void arrive(int host, std::size_t bytes, Duration work, std::function<void()> serve) {
    Server& server = node(host).server;
    ++server.messages;
    server.bytes += static_cast<std::int64_t>(bytes);
    if (host == 0) ++root_since_round_;
    server.most_waiting = std::max(server.most_waiting, ++server.waiting);
    server.busy_until = std::max(server.busy_until, events_.now()) + work + copying(bytes);
    events_.at(server.busy_until, [this, host, serve = std::move(serve)] {
      --node(host).server.waiting;
      serve();
      after(host);
    });
  }

  /// Sends what is due after a server has served a message.
  void after(int host) {
    Node& n = node(host);
    if (n.relay) {
      const Deadline next = n.relay->expire();
      if (next.at() != Time::max() && (!n.timer || *n.timer <= events_.now() || next.at() < *n.timer)) {
        n.timer = next.at();
        events_.at(next.at(), [this, host] { after(host); });
      }
    }
    for (const int child : n.children) {
      Node& c = node(child);
      if (!c.at_parent->has_answers() || std::exchange(c.is_pulled, true)) continue;
      // The batch is made when it arrives, so that the simulation does not hold all batches of a level at once.
      events_.at(std::max(events_.now(), n.server.busy_until) + kBetweenHosts, [this, host, child] {
        node(child).is_pulled = false;
        for (Bytes& batch : node(child).at_parent->answers()) {
          const std::size_t length = batch.size() + contributed_down(batch);
          sent(host, length);
          arrive(child, length, kServeMessage, [this, child, bytes = std::make_shared<const Bytes>(std::move(batch))] {
            node(child).relay->take(*bytes);
          });
        }
      });
    }
  }

  void come(Rank& rank) {
    Node& host = node(rank.host());
    if (host.relay && !std::exchange(host.has_come, true))
      events_.at(events_.now() + plan_.pace * rank.number, [this, h = rank.host()] { connect(h, 0); });
    const StoreIdentity identity{"world 0", rank.number, plan_.ranks, rank.number, fmt::format("h{}", rank.host())};
    ask(rank, StoreOp::Hello, WireWriter().bytes(identity.encode()).take());
  }

  void go_on(Rank& rank) {
    if (++rank.rounds == plan_.rounds) {
      end_ = events_.now();
      return;
    }
    if (rank.rounds == plan_.rounds - 1 && rank.number == 0) {
      root_since_round_ = 0;
      round_began_ = events_.now();
    }
    const std::string name = "start-up of world 0";
    ask(rank, StoreOp::AllGather, WireWriter().text(name).bytes(Bytes{}).take());
  }

  void ask(Rank& rank, StoreOp op, const Bytes& fields) {
    ++messages_;
    Bytes request = WireWriter().value(op).value(kWaitForever).rest(fields).take();
    events_.at(events_.now() + kWithinHost, [this, &rank, bytes = std::move(request)] {
      arrive(rank.host(), bytes.size() + contributed_by(bytes), kServeMessage,
             [this, &rank, bytes] { node(rank.host()).handler->handle(rank, bytes); });
    });
  }

  /// A relay connects: a hello and its answer, then the proof with Attach and its answer.
  void connect(int relay, int to) {
    most_connections_ = to == 0 ? std::max(most_connections_, ++root_connections_) : most_connections_;
    messages_ += 2;
    events_.at(events_.now() + kBetweenHosts, [this, relay, to] {
      arrive(to, Authentication::kHelloBytes, kAuthenticate / 2, [this, relay, to] {
        sent(to, Authentication::kReplyBytes);
        events_.at(events_.now() + 2 * kBetweenHosts, [this, relay, to] {
          const RelayIntroduction self = introduction(relay);
          arrive(to, Authentication::kProofBytes + self.encode().size(), kAuthenticate / 2,
                 [this, relay, to] { attach(relay, to); });
        });
      });
    });
  }

  static RelayIntroduction introduction(int relay) {
    return {.host = fmt::format("h{}", relay), .pid = relay, .rank = relay, .addresses = "10.0.0.1:20000"};
  }

  void attach(int relay, int to) {
    int parent = to;
    if (to == 0) {
      const RelayTree::Place place = tree_.add();
      node_of_relay_.push_back(relay);
      parent = node_of_relay_[static_cast<std::size_t>(place.parent)];
      depth_ = std::max(depth_, tree_.depth_of(place.number));
    }
    sent(to, RelayParent{.addresses = "10.0.0.1:20000"}.encode().size());
    if (parent != to) {
      --root_connections_;
      return events_.at(events_.now() + kBetweenHosts, [this, relay, parent] { connect(relay, parent); });
    }
    Node& r = node(relay);
    r.parent = to;
    r.at_parent = std::make_unique<RelayClients>(*node(to).handler, introduction(relay));
    node(to).children.push_back(relay);
    events_.at(events_.now() + kBetweenHosts, [this, relay] {
      node(relay).relay->lead_to([this, relay](const Bytes& batch) { send_up(relay, batch); });
      after(relay);
    });
  }

  void send_up(int relay, const Bytes& batch) {
    const std::size_t length = batch.size() + contributed_up(batch);
    sent(relay, length);
    const int parent = node(relay).parent;
    const auto bytes = std::make_shared<const Bytes>(batch);
    events_.at(events_.now() + kBetweenHosts, [this, relay, parent, length, bytes] {
      arrive(parent, length, kServeMessage, [this, relay, bytes] { node(relay).at_parent->take(*bytes); });
    });
  }

  StartCounts counts() const {
    const Server& root = nodes_[0].server;
    StartCounts c{.messages = messages_,
                  .rank_0_messages = root.messages,
                  .rank_0_bytes = root.bytes,
                  .rank_0_most_waiting = root.most_waiting,
                  .rank_0_round_messages = root_since_round_,
                  .rank_0_most_connections = most_connections_ + std::min(plan_.ranks, plan_.ranks_per_host),
                  .depth = depth_ + 1};
    for (std::size_t h = 1; h < nodes_.size(); ++h)
      c.busiest_relay_messages = std::max(c.busiest_relay_messages, nodes_[h].server.messages);
    c.seconds = std::chrono::duration<double>(end_.time_since_epoch()).count();
    c.last_round_seconds = std::chrono::duration<double>(end_ - round_began_).count();
    return c;
  }

  const StartPlan plan_;
  const int hosts_;
  Events events_;
  StoreService store_;
  RelayTree tree_;
  std::vector<int> node_of_relay_;  // by number in the tree
  std::vector<Node> nodes_;         // by host
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::int64_t messages_ = 0;
  std::int64_t root_since_round_ = 0;
  int root_connections_ = 0;
  int most_connections_ = 0;
  int depth_ = 0;
  Time end_{};
  Time round_began_{};
};

}  // namespace

StartCounts simulate_start(const StartPlan& plan) { return Start(plan).run(); }

}  // namespace sinew::bench
