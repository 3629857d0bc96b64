#include <algorithm>

#include <sinew/parallel/data_parallel/memory/memory_plan.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/planner/costs/held_bytes.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>

namespace sinew::parallel {
namespace {

std::int64_t of(const MemoryPlan& plan, Purpose purpose) { return static_cast<std::int64_t>(plan.of(purpose)); }

}  // namespace

void HeldPlans::add(const JobConfig& config, const std::vector<DataParameter>& parameters, int shards,
                    PlannedMemory& to) {
  if (parameters.empty()) return;
  std::vector<std::int64_t> list{config.zero, memory_use(config).accumulates ? 1 : 0, shards,
                                 stages(config) > 1 ? 1 : 0};
  for (const DataParameter& p : parameters) list.push_back(p.elements);
  PlannedMemory& known = by_list_[list];
  if (known.parameters == 0) {
    DataParallelOptions options{};
    options.gradients = ReduceOp::Sum;
    const bool has_root = std::ranges::find(parameters, "root", &DataParameter::unit) != parameters.end();
    if (has_root) options.step.outer_unit = "root";
    const MemoryPlan plan = plan_memory(parameters, data_row(row_name(config), {"shards"}), options,
                                        Factorisation({{"shards", shards}}), memory_use(config));
    known = {of(plan, Purpose::Parameter), of(plan, Purpose::Gradient), of(plan, Purpose::Optimizer),
             of(plan, Purpose::Underway), 0};
  }
  to.parameters += known.parameters;
  to.gradients += known.gradients;
  to.optimizer += known.optimizer;
  to.underway += known.underway;
}

PlannedMemory HeldPlans::of_place(const JobConfig& config, const RankPlace& place) {
  const LayoutSizes& l = config.layout;
  const int ranks = question_.ranks(), shared = ranks / (l.tp * l.pp), experts = ranks / (l.etp * l.ep * l.pp);
  PlannedMemory memory;
  add(config, planned_parameters(question_.model, config, place, false), shared, memory);
  add(config, planned_parameters(question_.model, config, place, true), experts, memory);
  return memory;
}

const std::vector<PlannedMemory>& HeldPlans::by_rank(const JobConfig& config) {
  const LayoutSizes& l = config.layout;
  std::vector<PlannedMemory>& known =
      known_[{l.tp, l.pp, l.ep, config.virtual_stages, config.zero, memory_use(config).accumulates ? 1 : 0,
              static_cast<int>(placement_of(config.schedule))}];
  if (!known.empty()) return known;
  const ModelShape& m = question_.model;
  const bool even = m.heads % l.tp == 0 && m.feed_forward % l.tp == 0 && m.vocabulary % l.tp == 0 &&
                    m.shared_experts * m.expert_feed_forward % l.tp == 0;
  for (int pp = 0; pp < l.pp; ++pp) {
    PlannedMemory most;
    for (int tp = 0; tp < (even ? 1 : l.tp); ++tp) {
      const PlannedMemory here = of_place(config, {tp, 0, pp});
      if (here.total() > most.total()) most = here;
    }
    known.push_back(most);
  }
  return known;
}

}  // namespace sinew::parallel
