#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/measure.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/log.hpp>

namespace sinew {
namespace {

constexpr std::size_t kSizes[] = {8, 4096, 65536, 1 << 20};  // not a page
constexpr int kTurns[] = {200, 50, 20, 6};
constexpr auto kOffloadBudget = std::chrono::milliseconds(120);

struct Posted : Completion {
  bool done = false;
  Posted() noexcept : Completion([](Completion& c) noexcept { static_cast<Posted&>(c).done = true; }) {}
};

/// Messages between this rank and another over one transport, one at a time.
class Link {
 public:
  Link(WorldState& world, int peer, const std::string& transport)
      : world_(world), endpoint_(world.endpoint(peer, transport)) {}

  void send(ConstBuffer from) {
    Posted posted;
    endpoint_.send(from, nullptr, tag(), 0, posted);
    wait(posted);
  }
  void recv(Buffer to) {
    Posted posted;
    endpoint_.recv({to, nullptr, {}}, nullptr, tag(), posted);
    wait(posted);
  }

 private:
  Tag tag() const { return Tag::user(world_.generation, 1, 0); }
  /// A completion must fire before it ends: a peer that never comes is the timeout of the World's creation.
  void wait(Posted& posted) {
    world_.engine->wait([&] { return posted.done; }, Deadline::never(), {});
    posted.status.require();
  }

  WorldState& world_;
  Endpoint& endpoint_;
};

/// The exchange of two ranks, made of messages.
Exchange exchange_with(WorldState& world, int peer, const std::string& transport) {
  auto link = std::make_shared<Link>(world, peer, transport);
  const int mine = world.rank < peer ? 0 : 1;
  return {mine, 2, [link, mine](const Bytes& bytes) {
            std::vector<Bytes> both(2);
            both[static_cast<std::size_t>(mine)] = bytes;
            std::uint64_t length = bytes.size();
            const auto give = [&] {
              link->send({reinterpret_cast<const std::byte*>(&length), sizeof length});
              link->send({bytes.data(), bytes.size()});
            };
            if (mine == 0) give();
            std::uint64_t theirs = 0;
            link->recv({reinterpret_cast<std::byte*>(&theirs), sizeof theirs});
            Bytes& other = both[static_cast<std::size_t>(1 - mine)];
            other.resize(theirs);
            link->recv({other.data(), other.size()});
            if (mine == 1) give();
            return both;
          }};
}

/// Two ranks bounce a message; the first of them learns the time of one way. Each message leaves from memory that its
/// sender has just written and lands in other memory, as in a training step: a buffer that nobody touches in between
/// stays in its owner's cache, and its time would be fiction.
class PingPong {
 public:
  PingPong(WorldState& world, int peer, const std::string& transport)
      : link_(world, peer, transport), first_(world.rank < peer), out_(kSizes[3]), in_(kSizes[3]) {}

  Seconds one_way(std::size_t bytes, int turns) {
    for (int i = 0; i < turns / 4 + 1; ++i) (void)turn(bytes);
    // The fastest turn: what others take of the machine while this runs is not the link's.
    Seconds fastest = 1;
    for (int i = 0; i < turns; ++i) fastest = std::min(fastest, turn(bytes));
    return fastest;
  }

 private:
  Seconds turn(std::size_t bytes) {
    std::fill_n(out_.begin(), bytes, std::byte{1});
    bounce(1);  // both have written
    const auto start = Clock::now();
    bounce(bytes);
    return std::chrono::duration<Seconds>(Clock::now() - start).count() / 2;
  }
  void bounce(std::size_t bytes) {
    if (first_) link_.send({out_.data(), bytes});
    link_.recv({in_.data(), bytes});
    if (!first_) link_.send({out_.data(), bytes});
  }

  Link link_;
  bool first_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
};

CostCurve curve_of(WorldState& world, int peer, const std::string& transport) {
  PingPong link(world, peer, transport);
  CostCurve curve;
  curve.latency_s = link.one_way(kSizes[0], kTurns[0]);
  for (int i = 1; i < 4; ++i) {
    const Seconds moving = std::max(link.one_way(kSizes[i], kTurns[i]) - curve.latency_s, 1e-9);
    curve.knots.push_back({static_cast<double>(kSizes[i]), static_cast<double>(kSizes[i]) / moving});
  }
  return curve;
}

/// Bytes per second of the fastest of a few passes over memory that is larger than any private cache.
template <class Pass>
double rate_of(Pass&& pass) {
  constexpr std::size_t kBytes = 8 << 20;
  std::vector<std::byte> a(kBytes, std::byte{1});
  std::vector<std::byte> b(kBytes, std::byte{2});
  Seconds fastest = 1;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    pass(a, b);
    fastest = std::min(fastest, std::chrono::duration<Seconds>(Clock::now() - start).count());
  }
  return static_cast<double>(kBytes) / fastest;
}

/// The lowest two ranks of one host that are of different processes, or of any if there are none; -1, -1: no pair.
std::pair<int, int> pair_to_measure(const Facts& facts) {
  std::pair<int, int> found{-1, -1};
  const int size = static_cast<int>(facts.ranks.size());
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      const LinkClass where = facts.class_of(a, b);
      if (where.host_a != where.host_b) continue;
      if (!where.same_process) return {a, b};
      if (found.first < 0) found = {a, b};
    }
  }
  return found;
}

void apply(const MeasuredCosts& costs, const std::string& source, Facts& facts) {
  for (auto& [where, row] : facts.links) {
    if (where.host_a != where.host_b) continue;
    for (Facts::Link& link : row) {
      const auto known = costs.links.find(link.transport);
      if (known != costs.links.end()) link.reach.cost = known->second;
    }
  }
  for (const auto& [name, bytes] : costs.offloads) facts.offload_facts[name] = bytes;
  facts.copy_bytes_per_s = costs.copy_bytes_per_s;
  facts.reduce_bytes_per_s = costs.reduce_bytes_per_s;
  facts.source = source;
}

/// What the offloads find when these two ranks try them.
void measure_offloads(WorldState& world, int peer, MeasuredCosts& costs) {
  for (OpenFabric& f : world.fabrics) {
    if (!f.fabric->has_offload().ok || !world.facts.reach(world.rank, peer, f.name).ok) continue;
    const Exchange exchange = exchange_with(world, peer, f.name);
    Group pair{.rank = exchange.rank, .world_ranks = {std::min(world.rank, peer), std::max(world.rank, peer)}};
    Bytes found = f.fabric->measure({std::move(pair), exchange, {}, {}}, kOffloadBudget);
    if (!found.empty()) costs.offloads[f.name] = std::move(found);
  }
}

MeasuredCosts measure(WorldState& world, int peer) {
  MeasuredCosts costs;
  for (const std::string& t : world.facts.transports) {
    if (world.facts.reach(world.rank, peer, t).ok) costs.links[t] = curve_of(world, peer, t);
  }
  costs.copy_bytes_per_s = rate_of([](auto& a, auto& b) { std::ranges::copy(a, b.begin()); });
  const Reducer add = reducer_for(ReduceOp::Sum, DType::F32);
  costs.reduce_bytes_per_s = rate_of([&](auto& a, auto& b) { add(b.data(), b.data(), a.data(), a.size()); });
  measure_offloads(world, peer, costs);
  return costs;
}

}  // namespace

void settle_costs(WorldState& world, const Exchange& exchange) {
  const std::string file = cost_cache_file(world.options.config);
  std::optional<MeasuredCosts> cached = world.rank == 0 ? load_costs(file) : std::nullopt;
  const auto pair = pair_to_measure(world.facts);
  const auto covers = [&](const MeasuredCosts& c) {
    return std::ranges::all_of(world.facts.transports, [&](const std::string& t) {
      return pair.first < 0 || c.links.contains(t) || !world.facts.reach(pair.first, pair.second, t).ok;
    });
  };
  const Bytes table = exchange.all_gather(cached && covers(*cached) ? to_bytes(*cached) : Bytes{})[0];
  if (!table.empty()) {
    apply(costs_from_bytes(table), fmt::format("measured on this machine ({})", file), world.facts);
    return;
  }
  const auto [a, b] = pair;
  Bytes measured;
  if (world.rank == a || world.rank == b) measured = to_bytes(measure(world, world.rank == a ? b : a));
  const std::vector<Bytes> all = exchange.all_gather(measured);
  if (a < 0) return;
  MeasuredCosts costs = costs_from_bytes(all[static_cast<std::size_t>(a)]);
  if (world.rank == 0) {
    MeasuredCosts merged = cached.value_or(MeasuredCosts{});
    merged.copy_bytes_per_s = costs.copy_bytes_per_s;
    merged.reduce_bytes_per_s = costs.reduce_bytes_per_s;
    for (const auto& [name, curve] : costs.links) merged.links[name] = curve;
    for (const auto& [name, bytes] : costs.offloads) merged.offloads[name] = bytes;
    save_costs(file, merged);
  }
  apply(costs, "measured just now between two ranks", world.facts);
}

}  // namespace sinew
