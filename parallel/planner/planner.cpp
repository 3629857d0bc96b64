#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/planner/costs/data_exchanges.hpp>
#include <sinew/parallel/planner/planned_exchanges.hpp>
#include <sinew/parallel/planner/planner.hpp>

namespace sinew::parallel {
namespace {

constexpr double kNano = 1e9;

std::int64_t nanoseconds(Seconds s) { return std::llround(s * kNano); }

/// Adds the broken rules that depend on the model. Jobs do not have these rules.
void add_model_rules(const PlanQuestion& q, const JobConfig& config, std::vector<Violation>& broken) {
  const LayoutSizes& l = config.layout;
  if (l.ep > 1 && q.model.experts > 0 && q.model.experts % l.ep != 0) {
    std::int64_t fewer = l.ep;
    while (q.model.experts % fewer != 0) --fewer;
    broken.push_back({"experts_even",
                      fmt::format("ep {} does not divide the {} experts", l.ep, q.model.experts),
                      {fmt::format("ep {}", fewer)}});
  }
  const std::int64_t parts = std::int64_t{std::max(l.cp, 1)} * (config.sequence_parallel ? std::max(l.tp, 1) : 1);
  if (parts > q.sequence && l.cp <= q.sequence)
    broken.push_back({"tokens",
                      fmt::format("{} ranks share the {} tokens of a sequence", parts, q.sequence),
                      {"not sequence-parallel"}});
}

}  // namespace

Planner::Planner(const PlanQuestion& question)
    : question_(question.complete()),
      engine_(planned_engine(question_)),
      collectives_(question_.cluster.network),
      held_(question_),
      flops_of_step_(model_flops_of_token(question_.model, question_.sequence) * question_.tokens()) {}

std::vector<Violation> Planner::violations(const JobConfig& config) {
  JobConfig judged = config;  // as if all layers were recomputed as the one that is recomputed most
  for (const LayerTreatment& t : treatment_of_layers(question_, config.recompute))
    judged.recompute = std::max(judged.recompute, t.recompute);
  std::vector<Violation> broken = parallel::violations(question_.ranks(), judged, engine_);
  if (question_.offloads_shards && config.zero != 3)
    broken.push_back({"offload",
                      fmt::format("shards in a store with zero {}, which keeps whole parameters", config.zero),
                      {"zero 3"}});
  if (question_.offloads_shards && broken.empty() && follows(config) &&
      sharding(config).reduces == ReduceEvery::MicroBatch)
    broken.push_back({"offload",
                      "shards in a store, and gradients that are summed after each microbatch for the budget of "
                      "stages",
                      {"budget 0"}});
  add_model_rules(question_, config, broken);
  return broken;
}

const std::vector<StagePasses>& Planner::passes(const JobConfig& c) {
  const LayoutSizes& l = c.layout;
  const Key key{l.tp,
                l.cp,
                l.pp,
                l.ep,
                c.virtual_stages,
                samples_of_pass(question_.ranks(), c),
                static_cast<int>(c.recompute),
                c.sequence_parallel,
                l.etp};
  std::vector<StagePasses>& known = passes_[key];
  if (known.empty()) known = stage_passes(question_, c, collectives_);
  return known;
}

const std::vector<StageActivations>& Planner::activations(const JobConfig& c) {
  const LayoutSizes& l = c.layout;
  const Key key{l.tp,
                l.cp,
                l.pp,
                c.virtual_stages,
                samples_of_pass(question_.ranks(), c),
                static_cast<int>(c.recompute),
                c.sequence_parallel,
                static_cast<int>(placement_of(c.schedule))};
  std::vector<StageActivations>& known = activations_[key];
  if (known.empty()) known = planned_activations(question_, c);
  return known;
}

const LiveStages& Planner::live(const JobConfig& config) {
  LiveStages& known = live_[schedule_shape(config)];
  if (known.by_rank.empty()) known = stages(config) > 1 ? live_stages(schedule_shape(config)) : LiveStages{{1}};
  return known;
}

const DataTimes& Planner::data(const JobConfig& c) {
  const LayoutSizes& l = c.layout;
  const bool alone = stages(c) == 1;  // exchanges run beside the passes, so their exposed time depends on the passes
  const Key key{l.tp,
                l.pp,
                l.ep,
                c.virtual_stages,
                c.zero,
                alone ? l.cp : 0,
                alone ? c.micro_batches : 0,
                alone ? static_cast<int>(c.recompute) : 0,
                l.etp,
                static_cast<int>(placement_of(c.schedule)),
                c.near_ranks,
                c.near_ranks > 1 ? l.cp : 0,
                static_cast<int>(c.weights),
                c.int4_gradients};
  const auto found = data_.find(key);
  if (found != data_.end()) return found->second;
  return data_.emplace(key, data_times(question_, c, passes(c), collectives_)).first->second;
}

PlannedMemory Planner::most_of(const JobConfig& config, const std::vector<PlannedMemory>& held) {
  const std::vector<StageActivations>& kept = activations(config);
  const LiveStages& at_once = live(config);
  PlannedMemory most;
  std::int64_t stored = 0;
  for (std::size_t r = 0; r < held.size(); ++r) {
    PlannedMemory here = held[r];
    here.activations = static_cast<std::int64_t>(kept[r].sum(at_once.by_rank[r], at_once.outputs));
    here.stored += static_cast<std::int64_t>(kept[r].stored_each * at_once.by_rank[r]);
    stored = std::max(stored, here.stored);
    if (here.total() > most.total()) most = here;
  }
  most.stored = stored;
  return most;
}

PlannedMemory Planner::memory(const JobConfig& config) { return most_of(config, held_.by_rank(config)); }

PlannedMemory Planner::least_memory(const JobConfig& config) { return most_of(config, held_.least_by_rank(config)); }

FarTraffic Planner::traffic(const JobConfig& config) {
  JobConfig of_hosts = config;
  if (config.near_ranks == 1) of_hosts.near_ranks = data_ranks_of_host(question_, config);
  const std::int64_t passes = stages(config) > 1 ? 1 : config.micro_batches;
  const auto sent_by = [&](DataStrategy strategy, const std::vector<DataParameter>& parameters) {
    if (config.near_ranks == 1) strategy.options.step.reshard_axes = strategy.options.step.scatter_axes = "";
    if (follows(config)) follow(strategy, sharding(config).schedule, config, engine_, {}, parameters);
    return far_traffic(parameters, strategy.row, strategy.options, strategy.shape, strategy.near, passes);
  };
  FarTraffic sum = sent_by(data_strategy(question_.ranks(), of_hosts, engine_), engine_.parameters(config, {}));
  if (!engine_.expert_parameters) return sum;
  const FarTraffic more = sent_by(expert_strategy(question_.ranks(), config), engine_.expert_parameters(config, {}));
  return {sum.weights + more.weights, sum.gradients + more.gradients};
}

PipelineCosts Planner::costs_of(const JobConfig& config) {
  PipelineCosts costs{.stages = {}};
  for (const StagePasses& s : passes(config)) {
    const std::int64_t backward = nanoseconds(s.backward.total()), weights = nanoseconds(s.weights);
    costs.stages.push_back({nanoseconds(s.forward.total()), backward, backward - weights, weights, 0});
  }
  const double bytes = boundary_bytes(question_.model, layer_input(question_, config));
  costs.latency = nanoseconds(collectives_.message(question_.ranks() / config.layout.pp, bytes));
  return costs;
}

/// The time of a step without the pipeline's bubble.
PlannedTime Planner::busy_time(const JobConfig& config) {
  const std::vector<StagePasses>& of_stages = passes(config);
  const auto ranks = static_cast<std::size_t>(config.layout.pp);
  PlannedTime time{.data = data(config)};
  for (std::size_t r = 0; r < ranks; ++r) {
    PassTime rank;
    for (std::size_t s = r; s < of_stages.size(); s += ranks) {
      rank += of_stages[s].forward;
      rank += of_stages[s].backward;
    }
    if (rank.total() > time.passes.total()) time.passes = rank;
  }
  time.passes = time.passes * static_cast<double>(config.micro_batches);
  return time;
}

/// Adds the bubble, and the exposed time of gathers and sums that a schedule begins. The bubble is the one of stages
/// whose exchanges take no time.
void Planner::add_exchanges_of_stages(const JobConfig& config, PlannedTime& time) {
  const PipelineSchedule& schedule = sharding(config).schedule;
  PipelineCosts costs = costs_of(config);
  const auto makespan = [&] { return static_cast<Seconds>(simulate(schedule, costs).makespan) / kNano; };
  const Seconds alone = makespan();
  const std::vector<HeldElements> elements = elements_of_stages(question_, config);
  std::vector<DataExchanges> exchanges;
  for (const HeldElements& of_stage : elements)
    exchanges.push_back(data_exchanges(question_, config, of_stage, collectives_));
  const auto set = [&](std::int64_t StageCosts::*part, Seconds DataExchanges::*from) {
    for (std::size_t s = 0; s < exchanges.size(); ++s) costs.stages[s].*part = nanoseconds(exchanges[s].*from);
  };
  if (config.zero == 3) set(&StageCosts::gather, &DataExchanges::gather);
  const Seconds with_gathers = config.zero == 3 ? makespan() : alone;
  set(&StageCosts::sum, &DataExchanges::sum);
  time.bubble = std::max(alone - time.passes.total(), 0.0);
  time.data.parameters += std::max(with_gathers - alone, 0.0);
  time.data.gradients += std::max(makespan() - with_gathers, 0.0);
}

PlannedTime Planner::time(const JobConfig& config) {
  PlannedTime time = busy_time(config);
  if (stages(config) == 1) return time;
  if (follows(config)) {
    add_exchanges_of_stages(config, time);
    return time;
  }
  const Seconds makespan = static_cast<Seconds>(makespans_.makespan(schedule_shape(config), costs_of(config))) / kNano;
  time.bubble = std::max(makespan - time.passes.total(), 0.0);
  return time;
}

PlannedTime Planner::least_time(const JobConfig& config) {
  PlannedTime time = busy_time(config);
  if (stages(config) == 1) return time;
  const Seconds makespan = static_cast<Seconds>(least_makespan(schedule_shape(config), costs_of(config))) / kNano;
  time.bubble = std::max(makespan - time.passes.total(), 0.0);
  return time;
}

double Planner::model_flops_share(Seconds step) const noexcept {
  return flops_of_step_ / (step * question_.cluster.flops * question_.ranks());
}

std::string Planner::exchanges(const JobConfig& config) { return planned_exchanges(question_, config, collectives_); }

}  // namespace sinew::parallel
