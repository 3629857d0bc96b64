#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/algorithm.hpp>
#include <sinew/collectives/measure.hpp>
#include <sinew/collectives/selector.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/cpu.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/wire.hpp>

namespace sinew {
namespace {

/// Messages to measure: knots of the curve after the first, and batches of calls to take the fastest of.
struct Sample {
  std::size_t bytes;
  int batches;
};
constexpr Sample kSamples[] = {{8, 24},        {256, 12},    {4 << 10 /* not a page */, 12},
                               {64 << 10, 16}, {1 << 20, 6}, {8 << 20, 3}};
/// Of one batch: enough calls for the clock and for ranks that start unevenly, on memory that is new to each.
constexpr std::size_t kBatchBytes = 128 << 10;
constexpr std::size_t kMostCalls = 64;
constexpr auto kLinkBudget = std::chrono::milliseconds(80);      // of one transport
constexpr auto kOffloadBudget = std::chrono::milliseconds(120);  // of one offload
/// For the endpoints of a rank that does not answer to give back what was posted; longer only if it stopped at reading.
constexpr auto kClosing = std::chrono::seconds(1);
/// No difference of two times is known to be less.
constexpr Seconds kClockTick = 1e-9;
/// Until what a busy machine left unmeasured is tried again.
constexpr std::int64_t kAgainAfterSeconds = 600;

struct Posted : Completion {
  bool done = false;
  Posted() noexcept : Completion([](Completion& c) noexcept { static_cast<Posted&>(c).done = true; }) {}
};

/// A completion must fire before it ends: what is posted comes back before this throws Timeout naming the peer.
void wait_for(const Posted& posted, WorldState& world, int peer) {
  const auto back = [&] { return posted.done; };
  // Half of the configured timeout: the others wait in the exchange, and should still hear of it.
  const Duration patience = world.options.config.timeout / 2;
  if (!world.engine->wait(back, {}, patience)) {
    const Status late(Code::Timeout,
                      fmt::format("rank {} did not answer within {} ms", peer,
                                  std::chrono::duration_cast<std::chrono::milliseconds>(patience).count()),
                      peer);
    world.executor.abort(0, late);  // nothing but this runs yet; and its messages know the endpoints
    world.close_endpoints(peer);
    if (!world.engine->wait(back, Deadline::after(kClosing), {})) {
      world.end_endpoints(peer);
      world.engine->wait(back, Deadline::never(), {});
    }
    late.require();
  }
  posted.status.require();
}

/// Messages between this rank and another over one transport, one at a time.
class Link {
 public:
  Link(WorldState& world, int peer, const std::string& transport)
      : world_(world), peer_(peer), endpoint_(world.endpoint(peer, transport)) {}

  void send(ConstBuffer from) {
    Posted posted;
    endpoint_.send(from, nullptr, tag(), 0, posted);
    wait_for(posted, world_, peer_);
  }
  void recv(Buffer to) {
    Posted posted;
    endpoint_.recv({to, nullptr, {}}, nullptr, tag(), posted);
    wait_for(posted, world_, peer_);
  }

 private:
  Tag tag() const { return Tag::user(world_.generation, 1, 0); }

  WorldState& world_;
  int peer_;
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

/// One round of a schedule as the executor runs it: two ranks send each other a message at the same time. Each call has
/// memory that its sender has just written and that lands elsewhere, as in a training step: a buffer that nobody
/// touches in between stays in its owner's cache, and its time would be fiction.
class Rounds {
 public:
  Rounds(WorldState& world, int peer, const std::string& transport, std::size_t bytes)
      : world_(world),
        peer_(peer),
        link_(world, peer, transport),
        rank_(world.rank < peer ? 0 : 1),
        bytes_(bytes),
        calls_(std::clamp<std::size_t>(kBatchBytes / bytes, 1, kMostCalls)),
        memory_(calls_ * stride()) {
    // The smallest messages are combined as well: that step costs about as much as they do.
    const CollectiveDesc desc{
        .collective = combines() ? Collective::AllReduce : Collective::AllGather, .dtype = DType::U8, .count = bytes};
    const Algorithm& exchange = *find_algorithm(desc.collective, "direct");
    round_ = Executable::make(desc, build_program(exchange, desc, rank_, 2, true), kCutting,
                              [&](int) { return &world.endpoint(peer, transport); });
    fingerprint_ = fingerprint_of(desc);
  }
  ~Rounds() { world_.executor.forget(*round_); }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// One batch more. What others take of the machine while it runs is not the link's: fastest() is that of the best.
  void run() {
    for (std::size_t c = 0; c < calls_; ++c) std::fill_n(in_of(c), bytes_, std::byte{1});
    meet(false);
    fastest_ = std::min(fastest_, batch());
  }
  Seconds fastest() const noexcept { return fastest_; }
  /// Is the time up for either?
  bool over(Deadline stop) { return meet(stop.passed()); }

 private:
  bool combines() const { return bytes_ <= kSamples[1].bytes; }
  std::size_t stride() const { return (2 * bytes_ + kFalseSharing - 1) / kFalseSharing * kFalseSharing; }
  std::byte* out_of(std::size_t call) { return memory_.data() + call * stride(); }
  std::byte* in_of(std::size_t call) { return out_of(call) + static_cast<std::size_t>(rank_) * bytes_; }

  Seconds batch() {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < calls_; ++i) {
      Posted done;
      world_.executor.start({.executable = round_.get(),
                             .in = {in_of(i), bytes_},
                             .out = combines() ? Buffer{in_of(i), bytes_} : Buffer{out_of(i), 2 * bytes_},
                             .history = fingerprint_,
                             .generation = world_.generation},
                            done);
      wait_for(done, world_, peer_);
    }
    return std::chrono::duration<Seconds>(Clock::now() - start).count() / static_cast<double>(calls_);
  }
  /// Both have written. Is either's time up?
  bool meet(bool up) {
    auto said = static_cast<std::byte>(up);
    if (rank_ == 0) link_.send({&said, 1});
    link_.recv({&said, 1});
    said |= static_cast<std::byte>(up);
    if (rank_ == 1) link_.send({&said, 1});
    return said != std::byte{};
  }

  WorldState& world_;
  int peer_;
  Link link_;
  int rank_;
  std::size_t bytes_;
  std::size_t calls_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Executable> round_;
  Fingerprint fingerprint_ = 0;
  Seconds fastest_ = std::numeric_limits<Seconds>::max();
};

struct MeasuredCurve {
  CostCurve curve;
  bool in_time = true;  ///< else each size was measured, but not as often as it should be
};

/// All sizes in turns, so that a busy machine has measured each of them when the time is up. nullopt: not even once.
std::optional<MeasuredCurve> curve_of(WorldState& world, int peer, const std::string& transport, Deadline stop) {
  std::deque<Rounds> all;
  for (const Sample& s : kSamples) all.emplace_back(world, peer, transport, s.bytes);
  const int turns = std::ranges::max(kSamples, {}, &Sample::batches).batches;
  bool in_time = true;
  for (int turn = -1; turn < turns; ++turn) {  // one before the first: connections, pages
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (turn < kSamples[i].batches) all[i].run();
    }
    if (!all.front().over(stop)) continue;
    if (turn < 0) return std::nullopt;
    in_time = turn == turns - 1;
    break;
  }
  CostCurve curve;
  curve.latency_s = all.front().fastest();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto bytes = static_cast<double>(kSamples[i].bytes);
    curve.knots.push_back({bytes, bytes / std::max(all[i].fastest() - curve.latency_s, kClockTick)});
  }
  return MeasuredCurve{curve, in_time};
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
    const auto found = curve_of(world, peer, t, Deadline::after(kLinkBudget));
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
