#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/search/layout_space.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/losers.hpp>
#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {
namespace {

constexpr std::int64_t kMostActions = std::int64_t{1} << 24;  // the limit of the generators

/// A layout that breaks no rule and fits into memory. It takes few bytes, because there are hundreds of thousands of
/// them.
struct Fitting {
  Seconds least = 0;
  std::int64_t memory = 0, micro_batches = 1;
  std::int32_t axes = 0;           // an index of axis_layouts()
  std::int16_t schedule = 0;       // an index of schedules_for() these axes
  std::int8_t zero = 0, wire = 0;  // wire: an index of wire_variants()
  Recompute recompute = Recompute::None;
};

class Search {
 public:
  Search(Planner& planner, const SearchOptions& options)
      : planner_(planner),
        q_(planner.question()),
        options_(options),
        most_bytes_(options.memory_bytes > 0 ? options.memory_bytes : q_.cluster.memory_bytes),
        axes_(axis_layouts(q_)),
        losers_(planner, most_bytes_) {}

  PlanResult run() {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (options_.progress)
        options_.progress(layout_text(q_, axes_[i]), static_cast<double>(i) / static_cast<double>(axes_.size()));
      look_at(static_cast<std::int32_t>(i));
    }
    rank();
    for (std::size_t i = 0; i < fitting_.size(); ++i) {
      if (!is_settled_.contains(i) && !result_.best.empty())
        losers_.slower(config_of(fitting_[i]), fitting_[i].least, result_.best.front());
    }
    result_.losers = losers_.take();
    result_.fitting += static_cast<std::int64_t>(fitting_.size());
    result_.simulated = planner_.simulated_pipelines();
    return std::move(result_);
  }

 private:
  void look_at(std::int32_t axes) {
    JobConfig config = axes_[static_cast<std::size_t>(axes)];
    if (breaks_rule(config)) return;
    const std::int64_t part = q_.global_batch / data_ranks(q_.ranks(), config);
    const auto schedules = schedules_for(q_, config.layout.pp);
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      std::tie(config.schedule, config.virtual_stages) = schedules[s];
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        config.recompute = recompute;
        if (!allows_schedule(config)) continue;
        for (const std::int64_t micro_batches : sorted_divisors(part)) {
          config.micro_batches = micro_batches;
          look_at(config, axes, static_cast<std::int16_t>(s));
        }
      }
    }
  }

  void look_at(JobConfig& config, std::int32_t axes, std::int16_t schedule) {
    if (stages(config) * config.micro_batches > kMostActions) {
      if (breaks_rule(config)) return;
    }
    const int before = config.zero;
    for (int zero = q_.offloads_shards ? 3 : 0; zero <= 3; ++zero) {
      config.zero = zero;
      const std::vector<JobConfig> wires = wire_variants(q_, config);
      for (std::size_t w = 0; w < wires.size(); ++w) {
        ++result_.judged;
        const PlannedMemory memory = planner_.least_memory(wires[w]);
        if (memory.total() > most_bytes_ || exceeds_store(memory)) {
          losers_.too_large(wires[w], memory);
          continue;
        }
        fitting_.push_back({planner_.least_time(wires[w]).total(), memory.total(), config.micro_batches, axes, schedule,
                            static_cast<std::int8_t>(zero), static_cast<std::int8_t>(w), config.recompute});
      }
    }
    config.zero = before;
  }

  bool exceeds_store(const PlannedMemory& memory) const noexcept {
    return q_.store.bytes > 0 && memory.stored > q_.store.bytes;
  }

  /// Plans a layout that least_memory() lets fit. If the job follows its schedule, and whole stages are too large, the
  /// stages get the memory that is left as their budget. {}: it is too large with any budget.
  std::optional<PlannedLayout> settled(JobConfig config) {
    PlannedMemory memory = planner_.memory(config);
    if (memory.total() > most_bytes_) {
      config.prefetch_bytes = most_bytes_ - memory.total() + memory.underway;
      if (config.prefetch_bytes <= 0 || config.zero < 2 || !planner_.violations(config).empty()) {
        losers_.too_large(config, memory);
        return std::nullopt;
      }
      memory = planner_.memory(config);
    }
    if (memory.total() <= most_bytes_) return PlannedLayout{config, memory, planner_.time(config)};
    losers_.too_large(config, memory);
    return std::nullopt;
  }

  bool breaks_rule(const JobConfig& config) {
    const std::vector<Violation> broken = planner_.violations(config);
    if (broken.empty()) return false;
    ++result_.judged;
    losers_.broke(config, broken);
    return true;
  }

  /// Judges a schedule with as many micro-batches as ranks, because its rules do not depend on their number.
  bool allows_schedule(const JobConfig& config) {
    if (stages(config) == 1) return true;
    const auto key = std::tuple(config.schedule, config.layout.pp, config.virtual_stages, config.recompute);
    const auto found = schedules_.find(key);
    if (found != schedules_.end()) {
      if (!found->second.empty()) {
        ++result_.judged;
        losers_.broke(config, found->second);
      }
      return found->second.empty();
    }
    JobConfig few = config;
    few.micro_batches = config.layout.pp;
    few.global_batch = std::int64_t{config.layout.pp} * data_ranks(q_.ranks(), config);
    schedules_.emplace(key, planner_.violations(few));
    return allows_schedule(config);
  }

  JobConfig config_of(const Fitting& f) const {
    JobConfig config = axes_[static_cast<std::size_t>(f.axes)];
    std::tie(config.schedule, config.virtual_stages) =
        schedules_for(q_, config.layout.pp)[static_cast<std::size_t>(f.schedule)];
    config.micro_batches = f.micro_batches;
    config.zero = f.zero;
    config.recompute = f.recompute;
    return wire_variants(q_, config)[static_cast<std::size_t>(f.wire)];
  }

  /// Simulates the layouts that may be among the best, the most promising first, until no other layout can be among
  /// them.
  void rank() {
    std::ranges::sort(fitting_, {}, [](const Fitting& f) {
      return std::tuple(f.least, f.memory, f.axes, f.schedule, f.micro_batches, f.zero, f.wire, f.recompute);
    });
    struct Ranked {
      PlannedLayout layout;
      std::size_t number = 0;  // an index of fitting_
    };
    const auto order = [](const Ranked& r) { return std::pair(r.layout.time.total(), r.layout.memory.total()); };
    std::vector<Ranked> best;
    for (std::size_t i = 0; i < fitting_.size(); ++i) {
      if (best.size() >= options_.top && fitting_[i].least > best.back().layout.time.total()) break;
      if (options_.progress) options_.progress("simulating pipelines", 1);
      std::optional<PlannedLayout> layout = settled(config_of(fitting_[i]));
      if (!layout) {
        is_settled_.insert(i);
        --result_.fitting;
        continue;
      }
      Ranked found{*std::move(layout), i};
      best.insert(std::ranges::upper_bound(best, order(found), {}, order), std::move(found));
      if (best.size() > options_.top) best.pop_back();
    }
    for (Ranked& r : best) {
      const auto broken = planner_.violations(r.layout.config);
      if (!broken.empty())
        throw std::logic_error(fmt::format("plan: {}: {}", layout_text(q_, r.layout.config), to_string(broken)));
      is_settled_.insert(r.number);
      result_.best.push_back(std::move(r.layout));
    }
  }

  Planner& planner_;
  const PlanQuestion& q_;
  const SearchOptions& options_;
  std::int64_t most_bytes_;
  std::vector<JobConfig> axes_;
  Losers losers_;
  std::map<std::tuple<std::string, int, int, Recompute>, std::vector<Violation>> schedules_;
  std::vector<Fitting> fitting_;
  std::set<std::size_t> is_settled_;  // indices of fitting_: the best, and those that proved too large
  PlanResult result_;
};

}  // namespace

PlanResult search(Planner& planner, const SearchOptions& options) {
  if (options.top < 1)
    throw Error(Code::InvalidArgument, fmt::format("plan: the best {} layouts, expected 1 or more", options.top));
  if (options.memory_bytes < 0)
    throw Error(Code::InvalidArgument,
                fmt::format("plan: memory of {} bytes, expected 1 or more", options.memory_bytes));
  return Search(planner, options).run();
}

}  // namespace sinew::parallel
