#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world/measured_link.hpp>
#include <sinew/collectives/world/measured_pair.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {
namespace {

constexpr auto kLinkBudget = std::chrono::milliseconds(80);           // of one transport on a host
constexpr auto kBetweenHostsBudget = std::chrono::milliseconds(160);  // of one transport
constexpr auto kOffloadBudget = std::chrono::milliseconds(250);       // of one offload; a quiet machine needs half
/// The time for a second measurement, and its shares. A link takes a quarter more than its share (measured_curve()).
constexpr auto kAgainBudget = std::chrono::milliseconds(200);
constexpr auto kOffloadAgain = std::chrono::milliseconds(150);
constexpr auto kLinkAgain = std::chrono::milliseconds(40);

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

/// What the offloads find when these two ranks try them. One that cannot finish in time is left out.
void measure_offloads(WorldState& world, int peer, Duration budget, MeasuredCosts& costs) {
  for (OpenFabric& f : world.fabrics) {
    if (!f.fabric->has_offload().ok || !world.facts.reach(world.rank, peer, f.name).ok) continue;
    const Exchange exchange = exchange_with(world, peer, f.name);
    Group pair{.rank = exchange.rank, .world_ranks = {std::min(world.rank, peer), std::max(world.rank, peer)}};
    auto found = f.fabric->measure({std::move(pair), exchange, {}}, budget);
    if (!found) continue;
    if (costs.doubt.empty()) costs.doubt = f.fabric->doubt_in(*found);
    costs.offloads[f.name] = std::move(*found);
  }
}

void measure_link(WorldState& world, int peer, const std::string& transport, Duration budget, bool first_counts,
                  MeasuredCosts& costs) {
  if (!world.facts.reach(world.rank, peer, transport).ok) return;
  const MeasuredCurve found = measured_curve(world, peer, transport, budget);
  if (first_counts || !found.is_first_only) costs.links[transport] = found.curve;
  if (!found.in_time) costs.unfinished.insert(transport);
}

MeasuredCosts measure_host(WorldState& world, int peer, const HostScope& scope) {
  MeasuredCosts costs;
  if (!scope.everything) {  // by shares, not by the clock: both ranks of the pair must stop at the same link
    if (scope.offloads) measure_offloads(world, peer, kOffloadAgain, costs);
    Duration left = kAgainBudget - (scope.offloads ? Duration(kOffloadAgain) : Duration{});
    for (const std::string& t : scope.links) {
      if (left < kLinkAgain * 5 / 4) break;
      measure_link(world, peer, t, kLinkAgain, false, costs);
      left -= kLinkAgain * 5 / 4;
    }
    return costs;
  }
  measure_offloads(world, peer, kOffloadBudget, costs);  // first: messages go by what they find
  for (const std::string& t : world.facts.transports) measure_link(world, peer, t, kLinkBudget, false, costs);
  costs.copy_bytes_per_s = rate_of([](auto& a, auto& b) { std::ranges::copy(a, b.begin()); });
  const Reducer add = reducer_for(ReduceOp::Sum, DType::F32);
  costs.reduce_bytes_per_s = rate_of([&](auto& a, auto& b) { add(b.data(), b.data(), a.data(), a.size()); });
  return costs;
}

/// While two ranks of a host measure, the others sleep: these spin if they have two cores, however many share them
/// later.
class TwoRanksAtWork {
 public:
  explicit TwoRanksAtWork(WorldState& world) : engine_(*world.engine), before_(engine_.may_spin()) {
    const int host = world.facts.ranks[static_cast<std::size_t>(world.rank)].host;
    engine_.set_may_spin(world.facts.cores_of_host[static_cast<std::size_t>(host)] >= 2);
  }
  ~TwoRanksAtWork() { engine_.set_may_spin(before_); }
  TwoRanksAtWork(const TwoRanksAtWork&) = delete;
  TwoRanksAtWork& operator=(const TwoRanksAtWork&) = delete;

 private:
  Engine& engine_;
  bool before_;
};

/// A Code comes first.
template <class Measure>
Bytes outcome(WorldState& world, const PairToMeasure& pair, const std::string& what, Measure&& measure) {
  const int peer = world.rank == pair.a ? pair.b : pair.a;
  try {
    return WireWriter().value(Code::Ok).rest(to_bytes(measure(peer))).take();
  } catch (const std::exception& e) {
    world.end_endpoints(peer);  // so that it does not wait for this one
    const Status why = status_of(e);
    const std::string text =
        fmt::format("measuring {}: rank {} with rank {}: {}", what, world.rank, peer, why.message());
    return WireWriter().value(why.code()).value(why.rank()).text(text).take();
  }
}

}  // namespace

Bytes outcome_of_host(WorldState& world, const PairToMeasure& pair, const HostScope& scope) {
  const TwoRanksAtWork spins(world);
  return outcome(world, pair, "this machine", [&](int peer) { return measure_host(world, peer, scope); });
}

Bytes outcome_between_hosts(WorldState& world, const PairToMeasure& pair) {
  const LinkClass where = pair.holds_for.front();
  return outcome(world, pair, fmt::format("between hosts {} and {}", where.host_a, where.host_b), [&](int peer) {
    MeasuredCosts costs;
    for (const std::string& t : world.facts.transports)  // all: an assumed cost would beat measured ones
      measure_link(world, peer, t, kBetweenHostsBudget, true, costs);
    return costs;
  });
}

bool ends_measuring(std::span<const std::byte> outcome) { return WireReader(outcome).value<Code>() == Code::Timeout; }

MeasuredCosts measured_by(std::span<const std::byte> of_a, std::span<const std::byte> of_b) {
  std::optional<Error> reason;
  for (const auto of : {of_a, of_b}) {
    WireReader outcome(of);
    const auto code = outcome.value<Code>();
    if (code == Code::Ok) continue;
    const int rank = outcome.value<int>();
    if (!reason || reason->code() == Code::PeerLost) reason.emplace(code, outcome.text(), rank);
  }
  if (reason) throw Error(*reason);
  WireReader found(of_a);
  static_cast<void>(found.value<Code>());
  return costs_from_bytes(found.rest());
}

}  // namespace sinew
