#include <algorithm>

#include <sinew/parallel/planner/costs/data_exchanges.hpp>
#include <sinew/parallel/planner/costs/data_times.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/model/number.hpp>

namespace sinew::parallel {
namespace {

/// Bytes that an update by Adam moves. It reads the gradient, the value and two moments. It writes the value, the
/// moments and the parameter of 16 bits.
constexpr double kBytesOfUpdate = 30;

/// The exposed time of exchanges that take `all` together, one for each layer. Each exchange runs while the next layer
/// computes for `unit`; the last exchange has no computing beside it.
Seconds beyond(Seconds all, double layers, Seconds unit) noexcept {
  return std::max(all - layers * unit, 0.0) + std::min(all, layers * unit) / std::max(layers, 1.0);
}

}  // namespace

DataTimes data_times(const PlanQuestion& q, const JobConfig& config, const std::vector<StagePasses>& passes,
                     CollectiveCosts& costs) {
  const LayoutSizes& l = config.layout;
  const int ranks = q.ranks(), shards = ranks / (l.tp * l.pp), copies = ranks / (l.etp * l.ep * l.pp);
  const HeldElements held = most_held(q, config);
  const auto [sum, gather, again] = data_exchanges(q, config, held, costs);
  const double owned = config.zero == 0 ? held.shared + held.experts : held.shared / shards + held.experts / copies;
  DataTimes times;
  times.optimizer = owned * kBytesOfUpdate / (q.offloads_shards ? q.store.bytes_per_s : q.cluster.memory_bytes_per_s);
  if (q.model.tied && rank_of_stage(config, stages(config) - 1) != 0) {
    const int apart = ranks / l.pp * (l.pp - 1);
    const double table = number(rows_of({}, 0, l.tp, q.model.vocabulary).count() * q.model.hidden);
    times.embeddings = costs.message(apart, table * static_cast<double>(size_of(config.precision.parameter))) +
                       costs.message(apart, table * static_cast<double>(size_of(config.precision.gradient)));
  }
  if (stages(config) > 1 && q.stage_actions) {
    if (config.zero < 3) times.parameters = gather;
    return times;
  }
  if (stages(config) > 1) {
    times.gradients = sum;
    times.parameters = gather;
    return times;
  }
  const double layers = number(q.model.layers), passes_of_step = number(config.micro_batches);
  const Seconds forward = passes.front().forward.total() / layers, backward = passes.front().backward.total() / layers;
  if (config.zero < 3) {
    times.gradients = beyond(sum, layers, backward);
    times.parameters = gather;
    return times;
  }
  const Seconds in_backward = beyond(again, layers, backward);
  times.parameters = passes_of_step * (beyond(gather, layers, forward) + in_backward);
  times.gradients = std::max(beyond(again + sum, layers, backward) - in_backward, 0.0);
  return times;
}

}  // namespace sinew::parallel
