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
  if (!world.device_watch) return {};
  const SeenTimes seen = load_seen_times(file, world.device_watch->times().devices);
  return seen.points.empty() ? "" : to_text(seen);
}

std::int64_t now_s() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);  // time of day: a file keeps it
}

/// All that is measured by two ranks each, in the order in which a rank that is of several does it.
struct ToMeasure {
  std::optional<PairToMeasure> host;
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
  if (pairs.host) add(*pairs.host, outcome_of_host);
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

/// The cache of rank 0, with what it has not known.
void keep(const std::string& file, MachineUse use, MeasuredCosts cached, const MeasuredCosts& costs,
          const std::function<std::set<std::string>(const MeasuredCosts&)>& missing) {
  cached.copy_bytes_per_s = costs.copy_bytes_per_s;
  cached.reduce_bytes_per_s = costs.reduce_bytes_per_s;
  for (const auto& [name, curve] : costs.links) cached.links[name] = curve;
  for (const auto& [name, bytes] : costs.offloads) cached.offloads[name] = bytes;
  cached.unfinished = costs.unfinished;
  cached.unfinished.merge(missing(cached));
  cached.again_at_s = cached.unfinished.empty() ? 0 : now_s() + kAgainAfterSeconds;
  save_costs(file, use, cached);
}

}  // namespace

void settle_costs(WorldState& world, const Exchange& exchange) {
  const std::string file = cost_cache_file(world.options.config);
  const MachineUse use(world.host->usable_cores(), world.options.config.tls.wanted);
  const std::optional<MeasuredCosts> cached = world.rank == 0 ? load_costs(file, use) : std::nullopt;
  ToMeasure pairs{pair_of_a_host(world.facts), pairs_between_hosts(world.facts)};
  const auto missing = [&](const MeasuredCosts& c) { return missing_in(c, world, pairs.host); };
  const auto waits = [&](const std::string& t) {
    return now_s() < cached->again_at_s && cached->unfinished.contains(t);
  };
  const bool covers =
      cached && std::ranges::all_of(missing(*cached), waits) && std::ranges::all_of(cached->unfinished, waits);
  const std::string& tuned = world.options.config.tune_file;
  const std::string seen = seen_times_as_text(world, file);
  Bytes given;
  if (world.rank == 0 && (covers || !tuned.empty() || !seen.empty())) {
    given = WireWriter()
                .rest(tune_file_as_message(tuned, machine_identity(use)))
                .bytes(covers ? to_bytes(*cached) : Bytes{})
                .text(seen)
                .take();
  }
  Bytes table;
  if (const Bytes known = exchange.all_gather(given)[0]; !known.empty()) {
    WireReader reader(known);
    world.facts.tuned = tuned_times_in(reader);
    table = reader.owned_bytes();
    if (const std::string text = reader.text(); !text.empty()) world.facts.seen = seen_times_from(text);
  }
  if (!table.empty()) {
    apply_to_hosts(costs_from_bytes(table), fmt::format("measured on this machine ({})", file), world.facts);
    pairs.host.reset();
    if (pairs.between.empty()) return;
  }
  std::vector<MeasuredCosts> found = all_measured_by(pairs, exchange.all_gather(outcomes_of(world, pairs)));
  if (pairs.host) {
    // The file is of rank 0's machine.
    const bool is_its_host =
        world.facts.ranks[static_cast<std::size_t>(pairs.host->a)].host == world.facts.ranks[0].host;
    if (world.rank == 0 && is_its_host) keep(file, use, cached.value_or(MeasuredCosts{}), found.front(), missing);
    apply_to_hosts(found.front(), fmt::format("measured just now between two ranks{}", thoroughness(found.front())),
                   world.facts);
    found.erase(found.begin());
  }
  for (std::size_t i = 0; i < found.size(); ++i) apply(found[i], pairs.between[i].holds_for, world.facts);
  if (pairs.between.empty()) return;
  const auto hurried = std::ranges::find_if(found, [](const MeasuredCosts& c) { return !c.unfinished.empty(); });
  world.facts.source += fmt::format("; between hosts: {}{}", source_between_hosts(world.facts),
                                    hurried == found.end() ? "" : thoroughness(*hurried));
}

}  // namespace sinew
