#include <algorithm>

#include <fmt/format.h>

#include <sinew/parallel/mesh/layout_arithmetic.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/planner/search/layout_space.hpp>

namespace sinew::parallel {
namespace {

/// The next larger value than `now` and the next smaller one, as far as there are any.
std::vector<std::int64_t> beside(const std::vector<std::int64_t>& values, std::int64_t now) {
  std::vector<std::int64_t> found;
  const auto above = std::ranges::upper_bound(values, now);
  if (above != values.end()) found.push_back(*above);
  const auto here = std::ranges::lower_bound(values, now);
  if (here != values.begin()) found.push_back(*std::prev(here));
  return found;
}

/// Collects the neighbours of a configuration.
class Collected {
 public:
  Collected(const PlanQuestion& q, const JobConfig& from) : q_(q), from_(from) {}

  void zero_and_recompute() {
    for (int zero = q_.offloads_shards ? 3 : 0; zero <= 3; ++zero) {
      if (zero == from_.zero) continue;
      add(fmt::format("zero {}", zero), [&](JobConfig& c) {
        c.zero = zero;
        c.weights = WeightWire::Plain;
        c.int4_gradients = false;
        c.near_ranks = 1;
      });
    }
    for (const Recompute r : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      if (r != from_.recompute) add(fmt::format("recompute {}", name_of(r)), [&](JobConfig& c) { c.recompute = r; });
    }
  }
  void wires() {
    JobConfig plain = from_;
    plain.weights = WeightWire::Plain;
    plain.int4_gradients = false;
    plain.near_ranks = 1;
    for (const JobConfig& c : wire_variants(q_, plain)) {
      if (c.weights == from_.weights && c.int4_gradients == from_.int4_gradients && c.near_ranks == from_.near_ranks)
        continue;
      add(fmt::format("weights {}, gradients {}, near {}", name_of(c.weights), c.int4_gradients ? "int4" : "plain",
                      c.near_ranks),
          [&](JobConfig& to) { to = c; });
    }
  }
  void micro_batch() {
    const int data = data_ranks(q_.ranks(), from_);
    if (data == 0 || q_.global_batch % data != 0) return;
    const std::int64_t part = q_.global_batch / data, now = samples_of_pass(q_.ranks(), from_);
    for (const std::int64_t samples : beside(sorted_divisors(part), now))
      add(fmt::format("micro-batch {}", samples), [&](JobConfig& c) { c.micro_batches = part / samples; });
  }
  void schedule() {
    for (const auto& [name, virtual_stages] : schedules_for(q_, from_.layout.pp)) {
      if (name == from_.schedule && virtual_stages == from_.virtual_stages) continue;
      add(virtual_stages > 1 ? fmt::format("{} x{}", name, virtual_stages) : name, [&](JobConfig& c) {
        c.schedule = name;
        c.virtual_stages = virtual_stages;
      });
    }
  }
  void sizes() {
    for (const char* name : {"tp", "pp", "cp", "ep"}) {
      const auto* field =
          std::ranges::find_if(kSizeFields, [&](const SizeField& f) { return f.name == std::string(name); });
      if (std::string(name) == "ep" && q_.model.experts == 0) continue;
      const std::int64_t samples = samples_of_pass(q_.ranks(), from_);
      for (const std::int64_t size : beside(sorted_divisors(q_.ranks()), from_.layout.*field->value)) {
        add(fmt::format("{} {}", name, size), [&](JobConfig& c) {
          c.layout.*field->value = static_cast<int>(size);
          c.sequence_parallel = c.layout.tp > 1;
          if (c.near_ranks > 1) c.near_ranks = data_ranks_of_host(q_, c);
          const auto schedules = schedules_for(q_, c.layout.pp);
          if (std::ranges::find(schedules, std::pair(c.schedule, c.virtual_stages)) == schedules.end()) {
            c.schedule = "1f1b";
            c.virtual_stages = 1;
          }
          const int data = data_ranks(q_.ranks(), c);  // the samples of a microbatch stay the same if possible
          const std::int64_t part = data > 0 && q_.global_batch % data == 0 ? q_.global_batch / data : 1;
          c.micro_batches = samples > 0 && part % samples == 0 ? part / samples : part;
        });
      }
    }
  }
  std::vector<Neighbour> take() { return std::move(all_); }

 private:
  template <class Change>
  void add(std::string text, Change change) {
    all_.push_back({std::move(text), from_});
    change(all_.back().config);
  }

  const PlanQuestion& q_;
  const JobConfig& from_;
  std::vector<Neighbour> all_;
};

}  // namespace

std::vector<std::int64_t> sorted_divisors(std::int64_t n) {
  std::vector<std::int64_t> all = divisors_of(n);
  std::ranges::sort(all);
  return all;
}

JobConfig plain_config(const PlanQuestion& q) {
  JobConfig config;
  config.precision = q.precision;
  config.global_batch = q.global_batch;
  config.micro_batches = 1;
  if (q.offloads_shards) config.zero = 3;
  return config;
}

std::vector<JobConfig> axis_layouts(const PlanQuestion& q) {
  std::vector<JobConfig> all;
  for (const std::int64_t tp : sorted_divisors(q.ranks())) {
    for (const std::int64_t pp : sorted_divisors(q.ranks() / tp)) {
      for (const std::int64_t cp : sorted_divisors(q.ranks() / tp / pp)) {
        const std::vector<std::int64_t> one{1};
        for (const std::int64_t ep : q.model.experts > 0 ? sorted_divisors(q.ranks() / pp) : one) {
          JobConfig config = plain_config(q);
          config.layout.tp = static_cast<int>(tp);
          config.layout.pp = static_cast<int>(pp);
          config.layout.cp = static_cast<int>(cp);
          config.layout.ep = static_cast<int>(ep);
          config.sequence_parallel = tp > 1;
          all.push_back(std::move(config));
        }
      }
    }
  }
  return all;
}

std::vector<std::pair<std::string, int>> schedules_for(const PlanQuestion& q, int pp) {
  if (pp <= 1) return {{"1f1b", 1}};
  std::vector<std::pair<std::string, int>> all;
  for (const NamedGenerator& generator : generators()) {
    const std::int32_t least = generator.least_virtual_stages;
    if (least == generator.most_virtual_stages) {
      if (least == 1 || q.model.layers % (std::int64_t{least} * pp) == 0) all.emplace_back(generator.name, least);
    } else if (q.model.layers % pp == 0) {
      for (const std::int64_t v : sorted_divisors(q.model.layers / pp)) {
        if (v > 1) all.emplace_back(generator.name, static_cast<int>(v));
      }
    }
  }
  return all;
}

std::vector<JobConfig> wire_variants(const PlanQuestion& q, const JobConfig& config) {
  std::vector<JobConfig> all{config};
  if (!q.zero_plus_plus || config.zero != 3) return all;
  const bool is_pipeline = stages(config) > 1;
  const int near = is_pipeline && q.stage_actions ? 1 : data_ranks_of_host(q, config);
  for (const int near_ranks : near > 1 ? std::vector{1, near} : std::vector{1}) {
    for (const WeightWire weights : {WeightWire::Plain, WeightWire::Int8}) {
      for (const bool int4 : {false, true}) {
        // The stages of a rank are gathered once, so near copies alone change nothing in a pipeline.
        if (near_ranks > 1 && is_pipeline && !int4) continue;
        if (near_ranks == 1 && weights == WeightWire::Plain && !int4) continue;
        all.push_back(config);
        all.back().weights = weights;
        all.back().int4_gradients = int4;
        all.back().near_ranks = near_ranks;
      }
    }
  }
  return all;
}

std::vector<Neighbour> neighbours(const PlanQuestion& question, const JobConfig& config) {
  Collected changes(question, config);
  changes.zero_and_recompute();
  changes.wires();
  changes.micro_batch();
  changes.schedule();
  changes.sizes();
  return changes.take();
}

}  // namespace sinew::parallel
