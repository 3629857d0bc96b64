#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/measure.hpp>
#include <sinew/collectives/measured_link.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/reduce.hpp>
#include <sinew/core/wire.hpp>

namespace sinew {
namespace {

constexpr auto kLinkBudget = std::chrono::milliseconds(80);      // of one transport
constexpr auto kOffloadBudget = std::chrono::milliseconds(120);  // of one offload
/// Until what a busy machine left unmeasured is tried again.
constexpr std::int64_t kAgainAfterSeconds = 600;

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
  facts.source = source + (facts.cores_of_host.size() > 1 ? "; between hosts: assumed, not measured" : "");
}

/// What the offloads find when these two ranks try them. One that cannot finish in time is left out.
void measure_offloads(WorldState& world, int peer, MeasuredCosts& costs) {
  for (OpenFabric& f : world.fabrics) {
    if (!f.fabric->has_offload().ok || !world.facts.reach(world.rank, peer, f.name).ok) continue;
    const Exchange exchange = exchange_with(world, peer, f.name);
    Group pair{.rank = exchange.rank, .world_ranks = {std::min(world.rank, peer), std::max(world.rank, peer)}};
    if (auto found = f.fabric->measure({std::move(pair), exchange, {}}, kOffloadBudget))
      costs.offloads[f.name] = std::move(*found);
  }
}

MeasuredCosts measure(WorldState& world, int peer) {
  MeasuredCosts costs;
  for (const std::string& t : world.facts.transports) {
    if (!world.facts.reach(world.rank, peer, t).ok) continue;
    const auto found = measured_curve(world, peer, t, Deadline::after(kLinkBudget));
    if (found) costs.links[t] = found->curve;
    if (!found || !found->in_time) costs.unfinished.insert(t);
  }
  costs.copy_bytes_per_s = rate_of([](auto& a, auto& b) { std::ranges::copy(a, b.begin()); });
  const Reducer add = reducer_for(ReduceOp::Sum, DType::F32);
  costs.reduce_bytes_per_s = rate_of([&](auto& a, auto& b) { add(b.data(), b.data(), a.data(), a.size()); });
  measure_offloads(world, peer, costs);
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

/// What a rank of the pair tells all others: what it has measured, or why it could not. A Code comes first.
Bytes outcome_of_measuring(WorldState& world, int peer) {
  const TwoRanksAtWork spins(world);
  try {
    return WireWriter().value(Code::Ok).rest(to_bytes(measure(world, peer))).take();
  } catch (const std::exception& e) {
    world.end_endpoints(peer);  // so that it does not wait for this one
    const Status why = status_of(e);
    const std::string text =
        fmt::format("measuring this machine: rank {} with rank {}: {}", world.rank, peer, why.message());
    return WireWriter().value(why.code()).value(why.rank()).text(text).take();
  }
}

/// What the lower of the pair has measured. Throws on all ranks alike where one of them could not: its reason, not that
/// the other has lost it since.
MeasuredCosts measured_by(std::pair<int, int> pair, const std::vector<Bytes>& outcomes) {
  std::optional<Error> reason;
  for (const int r : {pair.first, pair.second}) {
    WireReader outcome(outcomes[static_cast<std::size_t>(r)]);
    const auto code = outcome.value<Code>();
    if (code == Code::Ok) continue;
    const int rank = outcome.value<int>();
    if (!reason || reason->code() == Code::PeerLost) reason.emplace(code, outcome.text(), rank);
  }
  if (reason) throw Error(*reason);
  WireReader found(outcomes[static_cast<std::size_t>(pair.first)]);
  static_cast<void>(found.value<Code>());
  return costs_from_bytes(found.rest());
}

/// The transports between these two ranks of which the table does not know everything.
std::set<std::string> missing_in(const MeasuredCosts& costs, WorldState& world, std::pair<int, int> pair) {
  std::set<std::string> missing;
  if (pair.first < 0) return missing;
  const Facts& facts = world.facts;
  const auto reached = [&](const std::string& t) { return facts.reach(pair.first, pair.second, t).ok; };
  for (const std::string& t : facts.transports) {
    if (!costs.links.contains(t) && reached(t)) missing.insert(t);
  }
  for (const std::string& t : facts.with_offload()) {
    const auto known = costs.offloads.find(t);
    const bool usable = known != costs.offloads.end() && world.fabric(t).accepts(known->second);
    if (!usable && reached(t)) missing.insert(t);
  }
  return missing;
}

/// The file of rank 0, or why there is none that can be used. A Code comes first.
Bytes tune_file_as_message(const std::string& file, const std::string& machine) {
  try {
    const std::optional<TunedTimes> times = load_tuned_times(file, machine);
    return WireWriter().value(Code::Ok).text(times ? to_text(*times) : "").take();
  } catch (const Error& e) {
    return WireWriter().value(e.code()).text(e.what()).take();
  }
}

TunedTimes tuned_times_in(WireReader& message) {
  const auto code = message.value<Code>();
  const std::string text = message.text();
  if (code != Code::Ok) throw Error(code, text);
  return text.empty() ? TunedTimes{} : tuned_times_from(text, "rank 0's file");
}

std::int64_t now_s() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1); }

}  // namespace

void settle_costs(WorldState& world, const Exchange& exchange) {
  const std::string file = cost_cache_file(world.options.config);
  const int cores = world.host->usable_cores();
  std::optional<MeasuredCosts> cached = world.rank == 0 ? load_costs(file, cores) : std::nullopt;
  const auto pair = pair_to_measure(world.facts);
  const auto missing = [&](const MeasuredCosts& c) { return missing_in(c, world, pair); };
  const auto waits = [&](const std::string& t) {
    return now_s() < cached->again_at_s && cached->unfinished.contains(t);
  };
  const bool covers =
      cached && std::ranges::all_of(missing(*cached), waits) && std::ranges::all_of(cached->unfinished, waits);
  const std::string& tuned = world.options.config.tune_file;
  Bytes given;
  if (world.rank == 0 && (covers || !tuned.empty())) {
    given = WireWriter()
                .rest(tune_file_as_message(tuned, machine_identity(cores)))
                .bytes(covers ? to_bytes(*cached) : Bytes{})
                .take();
  }
  Bytes table;
  if (const Bytes known = exchange.all_gather(given)[0]; !known.empty()) {
    WireReader reader(known);
    world.facts.tuned = tuned_times_in(reader);
    table = reader.owned_bytes();
  }
  if (!table.empty()) {
    apply(costs_from_bytes(table), fmt::format("measured on this machine ({})", file), world.facts);
    return;
  }
  const auto [a, b] = pair;
  Bytes outcome;
  if (world.rank == a || world.rank == b) outcome = outcome_of_measuring(world, world.rank == a ? b : a);
  const std::vector<Bytes> outcomes = exchange.all_gather(outcome);
  if (a < 0) return;
  const MeasuredCosts costs = measured_by(pair, outcomes);
  if (world.rank == 0) {
    MeasuredCosts merged = cached.value_or(MeasuredCosts{});
    merged.copy_bytes_per_s = costs.copy_bytes_per_s;
    merged.reduce_bytes_per_s = costs.reduce_bytes_per_s;
    for (const auto& [name, curve] : costs.links) merged.links[name] = curve;
    for (const auto& [name, bytes] : costs.offloads) merged.offloads[name] = bytes;
    merged.unfinished = costs.unfinished;
    merged.unfinished.merge(missing(merged));
    merged.again_at_s = merged.unfinished.empty() ? 0 : now_s() + kAgainAfterSeconds;
    save_costs(file, cores, merged);
  }
  apply(costs, "measured just now between two ranks", world.facts);
}

}  // namespace sinew
