#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/selection/pairs_to_measure.hpp>
#include <sinew/collectives/world/measure.hpp>
#include <sinew/collectives/world/measured_pair.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

/// Until what a busy machine left unmeasured is tried again.
constexpr std::int64_t kAgainAfterSeconds = 600;

void apply(const MeasuredCosts& costs, const std::vector<LinkClass>& to, Facts& facts) {
  for (const LinkClass& where : to) {
    for (Facts::Link& link : facts.links.at(where)) {
      const auto measured = costs.links.find(link.transport);
      if (measured == costs.links.end()) continue;
      link.reach.cost = measured->second;
      link.source = CostSource::Measured;
    }
  }
}

void apply_to_hosts(const MeasuredCosts& costs, const std::string& source, Facts& facts) {
  std::vector<LinkClass> inside;
  for (const auto& [where, row] : facts.links) {
    if (where.host_a == where.host_b) inside.push_back(where);
  }
  apply(costs, inside, facts);
  for (const auto& [name, bytes] : costs.offloads) {
    facts.offload_facts[name] = bytes;
    facts.measured_offloads.insert(name);
  }
  facts.copy_bytes_per_s = costs.copy_bytes_per_s;
  facts.reduce_bytes_per_s = costs.reduce_bytes_per_s;
  facts.rates_source = CostSource::Measured;
  facts.source = source;
}

/// The transports within a host of which the table does not know everything.
std::set<std::string> missing_in(const MeasuredCosts& costs, WorldState& world,
                                 const std::optional<PairToMeasure>& pair) {
  std::set<std::string> missing;
  if (!pair) return missing;
  const Facts& facts = world.facts;
  const auto reached = [&](const std::string& t) { return facts.reach(pair->a, pair->b, t).ok; };
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
    return WireWriter().value(Code::Ok).text(times ? to_text(*times) : "").text(file).take();
  } catch (const Error& e) {
    return WireWriter().value(e.code()).text(e.what()).take();
  }
}

TunedTimes tuned_times_in(WireReader& message) {
  const auto code = message.value<Code>();
  const std::string text = message.text();
  if (code != Code::Ok) throw Error(code, text);
  TunedTimes times = text.empty() ? TunedTimes{} : tuned_times_from(text, "rank 0's file");
  times.file = message.text();
  return times;
}

/// The times of earlier jobs' calls on devices such as those of this World, by rank 0's file; empty: there are none.
std::string seen_times_as_text(const WorldState& world, const std::string& file) {
  const SeenTimes* const times = world.watches ? world.watches->device_times() : nullptr;
  if (times == nullptr) return {};
  const SeenTimes seen = load_seen_times(file, times->devices);
  return seen.points.empty() ? "" : to_text(seen);
}

std::int64_t now_s() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);  // time of day: a file keeps it
}

/// All that is measured by two ranks each, in the order in which a rank that is of several does it.
struct ToMeasure {
  std::optional<PairToMeasure> host;
  HostScope scope{};  ///< what `host` measures
  std::vector<PairToMeasure> between;
};

/// What this rank has found out, pair by pair; nothing for those of others. After somebody did not answer it measures
/// no more: each would be waited for.
Bytes outcomes_of(WorldState& world, const ToMeasure& pairs) {
  WireWriter all;
  Bytes failed;
  const auto add = [&](const PairToMeasure& pair, auto measure) {
    Bytes found;
    if (world.rank == pair.a || world.rank == pair.b) found = failed.empty() ? measure(world, pair) : failed;
    if (!found.empty() && ends_measuring(found)) failed = found;
    all.bytes(found);
  };
  if (pairs.host)
    add(*pairs.host, [&](WorldState& w, const PairToMeasure& pair) { return outcome_of_host(w, pair, pairs.scope); });
  for (const PairToMeasure& pair : pairs.between) add(pair, outcome_between_hosts);
  return all.take();
}

/// What each pair has measured, in order. Throws on all ranks alike where one has not.
std::vector<MeasuredCosts> all_measured_by(const ToMeasure& pairs, const std::vector<Bytes>& outcomes) {
  std::vector<WireReader> readers(outcomes.begin(), outcomes.end());
  std::vector<MeasuredCosts> found;
  const auto read = [&](const PairToMeasure& pair) {
    std::vector<std::span<const std::byte>> of_rank;
    for (WireReader& reader : readers) of_rank.push_back(reader.bytes());
    found.push_back(measured_by(of_rank[static_cast<std::size_t>(pair.a)], of_rank[static_cast<std::size_t>(pair.b)]));
  };
  if (pairs.host) read(*pairs.host);
  for (const PairToMeasure& pair : pairs.between) read(pair);
  return found;
}

/// What is known of the links between hosts.
std::string source_between_hosts(const Facts& facts) {
  bool any = false;
  bool all = true;
  for (const auto& [where, row] : facts.links) {
    if (where.host_a == where.host_b) continue;
    for (const Facts::Link& link : row) {
      const bool known = link.source != CostSource::Default;
      any = any || known;
      all = all && (known || !link.reach.ok);
    }
  }
  return all ? "measured just now" : any ? "in part measured just now, in part assumed" : "assumed, not measured";
}

/// What rates stand on where a busy machine left none for long messages.
std::string_view thoroughness(const MeasuredCosts& costs) {
  return costs.unfinished.empty() ? "" : ", long messages only as far as there was time";
}

/// Adds new measurements to what was known before.
MeasuredCosts with(MeasuredCosts known, const MeasuredCosts& found, const HostScope& scope,
                   const std::function<std::set<std::string>(const MeasuredCosts&)>& missing) {
  const std::int64_t now = now_s();
  if (found.copy_bytes_per_s > 0) {
    known.copy_bytes_per_s = found.copy_bytes_per_s;
    known.reduce_bytes_per_s = found.reduce_bytes_per_s;
  }
  for (const auto& [name, curve] : found.links) {
    known.links[name] = curve;
    known.links_at_s[name] = now;
    known.unfinished.erase(name);
  }
  for (const auto& [name, bytes] : found.offloads) {
    known.offloads[name] = bytes;
    known.offloads_at_s = now;
    known.doubt = found.doubt;
    known.contradicted.clear();
  }
  if (scope.everything) known.unfinished.clear();
  if (scope.everything || scope.offloads) {
    for (const auto& [name, bytes] : known.offloads) {
      if (!found.offloads.contains(name)) known.unfinished.insert(name);
    }
  }
  for (const std::string& name : found.unfinished) known.unfinished.insert(name);
  known.unfinished.merge(missing(known));
  known.again_at_s = now + kAgainAfterSeconds;
  return known;
}

/// The costs of a host as rank 0 knows them.
struct HostCosts {
  MeasuredCosts known{};
  bool any = false;     ///< true: `known` was read from the file
  bool measure = true;  ///< true: the costs in `scope` are measured now
  HostScope scope{};
};

/// Reads the file of rank 0, and decides which costs are measured now.
HostCosts costs_in(const std::string& file, MachineUse use, WorldState& world,
                   const std::function<std::set<std::string>(const MeasuredCosts&)>& missing) {
  std::optional<MeasuredCosts> cached = load_costs(file, use);
  if (!cached) return {.measure = world.facts.measures};
  HostCosts costs{.known = std::move(*cached), .any = true};
  std::erase_if(costs.known.offloads, [&](const auto& o) {
    const auto& all = world.facts.transports;
    return std::ranges::find(all, o.first) != all.end() && !world.fabric(o.first).accepts(o.second);
  });
  const bool waits = now_s() < costs.known.again_at_s;
  const auto is_new = [&](const std::string& t) { return !costs.known.unfinished.contains(t); };
  if (std::ranges::any_of(missing(costs.known), is_new)) {
    costs.measure = world.facts.measures;
    return costs;
  }
  Doubts doubts = doubts_about(costs.known, now_s());
  costs.measure = !doubts.text.empty() && !waits && world.facts.measures_again;
  const std::set<std::string> absent = missing(costs.known);
  doubts.offloads = doubts.offloads || std::ranges::any_of(absent, [&](const std::string& t) {
                      return !costs.known.offloads.contains(t);
                    });
  costs.scope = {false, doubts.offloads, {doubts.links.begin(), doubts.links.end()}};
  return costs;
}

Bytes as_message(const HostCosts& costs) {
  WireWriter text;
  text.value(costs.any).bytes(costs.any ? to_bytes(costs.known) : Bytes{}).value(costs.measure);
  text.value(costs.scope.everything).value(costs.scope.offloads).value(costs.scope.links.size());
  for (const std::string& link : costs.scope.links) text.text(link);
  return text.take();
}

HostCosts host_costs_in(WireReader& message) {
  HostCosts costs;
  costs.any = message.value<bool>();
  const Bytes known = message.owned_bytes();
  if (costs.any) costs.known = costs_from_bytes(known);
  costs.measure = message.value<bool>();
  costs.scope.everything = message.value<bool>();
  costs.scope.offloads = message.value<bool>();
  for (auto left = message.value<std::size_t>(); left > 0; --left) costs.scope.links.push_back(message.text());
  return costs;
}

std::string with_doubts(std::string source, const MeasuredCosts& costs) {
  const Doubts doubts = doubts_about(costs, now_s());
  return doubts.text.empty() ? source : fmt::format("{}, in doubt: {}", source, doubts.text);
}

}  // namespace

void settle_costs(WorldState& world, const Exchange& exchange) {
  const std::string file = cost_cache_file(world.options.config);
  const MachineUse use(world.host->usable_cores(), world.options.config.tls.wanted);
  ToMeasure pairs{.host = pair_of_a_host(world.facts), .between = pairs_between_hosts(world.facts)};
  const auto missing = [&](const MeasuredCosts& c) { return missing_in(c, world, pairs.host); };
  HostCosts host = world.rank == 0 ? costs_in(file, use, world, missing) : HostCosts{.measure = world.facts.measures};
  const std::string& tuned = world.options.config.tune_file;
  const std::string seen = seen_times_as_text(world, file);
  Bytes given;
  if (world.rank == 0 && (host.any || !tuned.empty() || !seen.empty())) {
    given =
        WireWriter().rest(tune_file_as_message(tuned, machine_identity(use))).bytes(as_message(host)).text(seen).take();
  }
  if (const Bytes known = exchange.all_gather(given)[0]; !known.empty()) {
    WireReader reader(known);
    world.facts.tuned = tuned_times_in(reader);
    const Bytes of_host = reader.owned_bytes();
    WireReader host_reader(of_host);
    host = host_costs_in(host_reader);
    if (const std::string text = reader.text(); !text.empty()) world.facts.seen = seen_times_from(text);
  }
  if (host.any)
    apply_to_hosts(host.known, with_doubts(fmt::format("measured on this machine ({})", file), host.known),
                   world.facts);
  if (!host.measure) pairs.host.reset();
  pairs.scope = host.scope;
  if (!world.facts.measures) pairs.between.clear();
  WorldState::any_has_costs().store(true, std::memory_order_relaxed);
  if (!pairs.host && pairs.between.empty()) return;
  std::vector<MeasuredCosts> found = all_measured_by(pairs, exchange.all_gather(outcomes_of(world, pairs)));
  if (pairs.host) {
    const MeasuredCosts all = with(host.known, found.front(), host.scope, missing);
    // The file is of rank 0's machine.
    const bool is_its_host =
        world.facts.ranks[static_cast<std::size_t>(pairs.host->a)].host == world.facts.ranks[0].host;
    if (world.rank == 0 && is_its_host) save_costs(file, use, all);
    apply_to_hosts(all, with_doubts("measured just now between two ranks", all), world.facts);
    found.erase(found.begin());
  }
  for (std::size_t i = 0; i < found.size(); ++i) apply(found[i], pairs.between[i].holds_for, world.facts);
  if (pairs.between.empty()) return;
  const auto hurried = std::ranges::find_if(found, [](const MeasuredCosts& c) { return !c.unfinished.empty(); });
  world.facts.source += fmt::format("; between hosts: {}{}", source_between_hosts(world.facts),
                                    hurried == found.end() ? "" : thoroughness(*hurried));
}

}  // namespace sinew
