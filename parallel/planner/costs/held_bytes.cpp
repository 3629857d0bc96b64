#include <algorithm>

#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/planner/costs/data_exchanges.hpp>
#include <sinew/parallel/planner/costs/held_bytes.hpp>

namespace sinew::parallel {
namespace {

std::int64_t of(const MemoryPlan& plan, Purpose purpose) { return static_cast<std::int64_t>(plan.of(purpose)); }

PlannedMemory sum_of(const PlannedMemory& a, const PlannedMemory& b) {
  return {a.parameters + b.parameters, a.gradients + b.gradients,     a.optimizer + b.optimizer,
          a.underway + b.underway,     a.activations + b.activations, a.stored + b.stored};
}

/// The bytes of the largest stage that exist only during a part of a step, by pipeline rank.
std::vector<std::int64_t> largest_stages(const PlanQuestion& q, const JobConfig& config) {
  std::vector<std::int64_t> most(static_cast<std::size_t>(config.layout.pp), 0);
  const double bytes = (config.zero == 3 ? static_cast<double>(size_of(config.precision.parameter)) : 0) +
                       (config.zero >= 2 ? static_cast<double>(size_of(config.precision.gradient)) : 0);
  const std::vector<HeldElements> of_stages = elements_of_stages(q, config);
  for (std::size_t s = 0; s < of_stages.size(); ++s) {
    std::int64_t& here = most[static_cast<std::size_t>(rank_of_stage(config, static_cast<std::int32_t>(s)))];
    here = std::max(here, static_cast<std::int64_t>(bytes * of_stages[s].all()));
  }
  return most;
}

}  // namespace

HeldPlans::HeldPlans(PlanQuestion question)
    : question_(std::move(question)), engine_(planned_engine(question_)), whole_(question_) {
  whole_.stage_actions = false;
}

HeldPlans::Key HeldPlans::key_of(const JobConfig& c) {
  const LayoutSizes& l = c.layout;
  return {l.tp,
          l.pp,
          l.ep,
          c.virtual_stages,
          c.zero,
          memory_use(c).accumulates ? 1 : 0,
          static_cast<int>(placement_of(c.schedule)),
          c.near_ranks,
          c.near_ranks > 1 ? l.cp : 0,
          c.int4_gradients ? 1 : 0};
}

PlannedMemory HeldPlans::planned(const JobConfig& config, DataStrategy strategy, const RankPlace& place,
                                 const std::vector<DataParameter>& parameters, bool follows) {
  if (follows) follow(strategy, sharding(config).schedule, config, engine_, place, parameters);
  const MemoryPlan plan =
      plan_memory(parameters, strategy.row, strategy.options, strategy.shape, memory_use(config, follows));
  PlannedMemory memory{of(plan, Purpose::Parameter), of(plan, Purpose::Gradient), of(plan, Purpose::Optimizer),
                       of(plan, Purpose::Underway)};
  if (!question_.offloads_shards) return memory;
  memory.stored = memory.parameters + memory.gradients + memory.optimizer;
  memory.parameters = memory.gradients = memory.optimizer = 0;
  return memory;
}

PlannedMemory HeldPlans::of_place(const JobConfig& config, const RankPlace& place, bool of_experts, bool follows) {
  const std::vector<DataParameter> parameters =
      planned_parameters(follows ? question_ : whole_, config, place, of_experts);
  if (parameters.empty()) return {};
  const auto strategy = [&] {
    return of_experts ? expert_strategy(question_.ranks(), config) : data_strategy(question_.ranks(), config, engine_);
  };
  if (follows) return planned(config, strategy(), place, parameters, true);
  const LayoutSizes& l = config.layout;
  const int near = of_experts ? 1 : config.near_ranks;
  const int shards = question_.ranks() / (of_experts ? l.etp * l.ep * l.pp : l.tp * l.pp);
  std::vector<std::int64_t> list{config.zero,
                                 memory_use(config).accumulates ? 1 : 0,
                                 shards,
                                 stages(config) > 1 ? 1 : 0,
                                 of_experts ? 1 : 0,
                                 near,
                                 near > 1 ? l.cp : 0,
                                 config.int4_gradients ? 1 : 0};
  for (const DataParameter& p : parameters) list.push_back(p.elements);
  const auto found = by_list_.find(list);
  if (found != by_list_.end()) return found->second;
  return by_list_.emplace(std::move(list), planned(config, strategy(), place, parameters, false)).first->second;
}

std::vector<PlannedMemory> HeldPlans::most_by_rank(const JobConfig& config, bool follows) {
  const ModelShape& m = question_.model;
  const int tp = config.layout.tp;
  const std::int64_t in_state = m.mamba == 2 ? m.state_heads() : m.mamba == 1 ? m.channels() : 0;
  const bool even = in_state % tp == 0 && m.heads % tp == 0 && m.feed_forward % tp == 0 && m.vocabulary % tp == 0 &&
                    m.shared_experts * m.expert_feed_forward % tp == 0;
  std::vector<PlannedMemory> by_rank;
  for (int pp = 0; pp < config.layout.pp; ++pp) {
    PlannedMemory most;
    for (int t = 0; t < (even ? 1 : tp); ++t) {
      const RankPlace place{t, 0, pp};
      const PlannedMemory here =
          sum_of(of_place(config, place, false, follows), of_place(config, place, true, follows));
      if (here.total() > most.total()) most = here;
    }
    by_rank.push_back(most);
  }
  return by_rank;
}

const std::vector<PlannedMemory>& HeldPlans::by_rank(const JobConfig& config) {
  const bool follows = follows_schedule(config, engine_);
  std::vector<PlannedMemory>& known =
      follows ? followed_[{schedule_shape(config), key_of(config), config.prefetch_bytes}] : known_[key_of(config)];
  if (known.empty()) known = most_by_rank(config, follows);
  return known;
}

const std::vector<PlannedMemory>& HeldPlans::least_by_rank(const JobConfig& config) {
  if (!follows_schedule(config, engine_)) return by_rank(config);
  std::vector<PlannedMemory>& known = least_[key_of(config)];
  if (!known.empty()) return known;
  known = most_by_rank(config, false);
  const std::vector<std::int64_t> largest = largest_stages(question_, config);
  for (std::size_t r = 0; r < known.size(); ++r) known[r].underway = std::min(known[r].underway, largest[r]);
  return known;
}

const ShardingChoice& HeldPlans::sharding(const JobConfig& config) {
  FollowedKey key{schedule_shape(config), key_of(config), config.prefetch_bytes};
  const auto found = choices_.find(key);
  if (found != choices_.end()) return found->second;
  JobConfig with_proof = config;
  std::shared_ptr<const ProvedSchedule>& proved = proved_[schedule_shape(config)];
  if (!proved) proved = proved_schedule(config);
  with_proof.proved = proved;
  return choices_.emplace(std::move(key), sharded_schedule(question_.ranks(), with_proof, engine_)).first->second;
}

}  // namespace sinew::parallel
