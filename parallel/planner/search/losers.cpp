#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/parallel/planner/search/layout_space.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/losers.hpp>

namespace sinew::parallel {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

struct Excess {
  std::string name;
  Seconds seconds = 0;
};

/// The part of the time by which a slower layout exceeds the best one most.
Excess excess_of(const PlanQuestion& q, const JobConfig& config, const PlannedTime& t, const PlannedTime& best) {
  const LayoutSizes& l = config.layout;
  const bool crosses = l.tp > q.cluster.network.ranks_per_host;
  const bool uneven = q.model.layers % stages(config) != 0;
  const std::array<Excess, 9> all{{
      {crosses ? "tensor exchanges: tp crosses hosts" : "tensor exchanges", t.passes.tensor - best.passes.tensor},
      {"recomputation", t.passes.again - best.passes.again},
      {uneven ? "stages of unequal layers" : "the bubble of the pipeline", t.bubble - best.bubble},
      {"sums of gradients", t.data.gradients - best.data.gradients},
      {"gathers of parameters", t.data.parameters - best.data.parameters},
      {"exchanges of context", t.passes.context - best.passes.context},
      {"copies to the store", t.passes.offload - best.passes.offload},
      {"exchanges of experts", t.passes.experts - best.passes.experts},
      {uneven ? "stages of unequal layers" : "computing: small products, or the optimizer",
       t.passes.compute + t.data.optimizer - best.passes.compute - best.data.optimizer},
  }};
  return *std::ranges::max_element(all, {}, &Excess::seconds);
}

}  // namespace

Losers::Nearest& Losers::of_class(const std::string& limit, Nearest::Kind kind) {
  const auto [found, is_new] = classes_.try_emplace(limit);
  if (is_new) {
    order_.push_back(limit);
    found->second.shown.limit = limit;
    found->second.kind = kind;
  }
  ++found->second.shown.count;
  return found->second;
}

bool Losers::comes_nearer(Nearest& of, const JobConfig& config, double distance) {
  if (of.shown.count > 1 && distance >= of.distance) return false;
  of.distance = distance;
  of.config = config;
  of.shown.nearest = layout_text(planner_.question(), config);
  return true;
}

void Losers::broke(const JobConfig& config, const std::vector<Violation>& rules) {
  const Violation& first = rules.front();
  Nearest& of = of_class(first.rule, Nearest::Kind::Rule);
  if (!comes_nearer(of, config, static_cast<double>(rules.size()))) return;
  of.shown.found = first.found;
  of.shown.fix = fmt::format("{}", fmt::join(first.fixes, " or "));
}

void Losers::too_large(const JobConfig& config, const PlannedMemory& memory) {
  const std::int64_t room = planner_.question().store.bytes;
  if (memory.total() <= most_bytes_ && room > 0 && memory.stored > room) {
    Nearest& of = of_class(fmt::format("store with recompute {}", name_of(config.recompute)), Nearest::Kind::Memory);
    if (comes_nearer(of, config, static_cast<double>(memory.stored)))
      of.shown.found = fmt::format("{:.2f} of {:.2f} GiB", gib(memory.stored), gib(room));
    return;
  }
  Nearest& of = of_class(fmt::format("memory with recompute {}", name_of(config.recompute)), Nearest::Kind::Memory);
  const auto total = static_cast<double>(memory.total());
  if (comes_nearer(of, config, total)) {
    of.shown.found = fmt::format("{:.2f} of {:.2f} GiB", gib(memory.total()), gib(most_bytes_));
  }
}

void Losers::slower(const JobConfig& config, Seconds seconds, const PlannedLayout& best) {
  const PlannedTime time = planner_.least_time(config);
  const Excess most = excess_of(planner_.question(), config, time, best.time);
  Nearest& of = of_class(most.name, Nearest::Kind::Time);
  if (comes_nearer(of, config, seconds)) of.excess = most.seconds;
}

void Losers::time_of(Nearest& nearest) {
  nearest.distance = planner_.time(nearest.config).total();
  nearest.shown.found = fmt::format("{:.3f} s, of which {:.3f} s beyond the best's", nearest.distance, nearest.excess);
}

bool Losers::is_good(const JobConfig& config) {
  if (!planner_.violations(config).empty()) return false;
  const PlannedMemory memory = planner_.memory(config);
  const std::int64_t room = planner_.question().store.bytes;
  return memory.total() <= most_bytes_ && (room == 0 || memory.stored <= room);
}

std::string Losers::fix_of(const Nearest& nearest) {
  const std::vector<Neighbour> all = neighbours(planner_.question(), nearest.config);
  if (nearest.kind == Nearest::Kind::Memory) {
    for (const Neighbour& n : all) {
      if (is_good(n.config)) return fmt::format("{}: {:.1f} GiB", n.text, gib(planner_.memory(n.config).total()));
    }
    return "";
  }
  const Neighbour* best = nullptr;
  Seconds least = nearest.distance;
  for (const Neighbour& n : all) {
    if (!is_good(n.config)) continue;
    const Seconds seconds = planner_.least_time(n.config).total();
    if (seconds >= least) continue;
    least = seconds;
    best = &n;
  }
  if (best == nullptr) return "";
  const Seconds seconds = planner_.time(best->config).total();
  return seconds < nearest.distance ? fmt::format("{}: {:.3f} s", best->text, seconds) : "";
}

std::vector<LoserClass> Losers::take() {
  std::vector<LoserClass> all;
  for (const Nearest::Kind kind : {Nearest::Kind::Rule, Nearest::Kind::Memory, Nearest::Kind::Time}) {
    for (const std::string& limit : order_) {
      Nearest& of = classes_.at(limit);
      if (of.kind != kind) continue;
      if (kind == Nearest::Kind::Time) time_of(of);
      if (kind != Nearest::Kind::Rule) of.shown.fix = fix_of(of);
      all.push_back(of.shown);
    }
  }
  return all;
}

}  // namespace sinew::parallel
