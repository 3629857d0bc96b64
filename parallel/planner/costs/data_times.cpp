#include <algorithm>

#include <sinew/parallel/planner/costs/data_times.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/model/number.hpp>

namespace sinew::parallel {
namespace {

/// Bytes that an update by Adam moves. It reads the gradient, the value and two moments. It writes the value, the
/// moments and the parameter of 16 bits.
constexpr double kBytesOfUpdate = 30;

/// The elements of the rank that holds most. shared: all parameters except those of experts.
struct Elements {
  double shared = 0, experts = 0;
};

Elements most_held(const PlanQuestion& q, const JobConfig& config) {
  Elements most;
  const WeightPart part{0, config.layout.tp, config.layout.ep};
  const int all = stages(config), pp = config.layout.pp;
  const auto split = [](const std::vector<Weight>& weights) {
    Elements held;
    for (const Weight& w : weights) (w.of_experts ? held.experts : held.shared) += number(w.elements);
    return held;
  };
  const Elements first = split(layer_weights(q.model, 0, part)),
                 last = split(layer_weights(q.model, q.model.layers - 1, part));
  const std::vector<Rows> layers = layers_of_stages(q.model.layers, all);
  for (int rank = 0; rank < pp; ++rank) {
    Elements here;
    for (int s = 0; s < all; ++s) {
      if (rank_of_stage(config, s) != rank) continue;
      const Rows& rows = layers[static_cast<std::size_t>(s)];
      for (std::int64_t l = rows.first; l < rows.last; ++l) {
        const Elements& layer = q.model.has_experts(l) ? last : first;
        here.shared += layer.shared;
        here.experts += layer.experts;
      }
    }
    if (rank == 0) here.shared += number(elements_of(input_weights(q.model, part)));
    if (rank_of_stage(config, all - 1) == rank) here.shared += number(elements_of(output_weights(q.model, part)));
    if (here.shared + here.experts > most.shared + most.experts) most = here;
  }
  return most;
}

/// The times of exchanges for one kind of parameters.
struct Exchanges {
  Seconds sum = 0;     ///< of all gradients
  Seconds gather = 0;  ///< of all parameters, for one gather
};

Exchanges exchanges_of(const JobConfig& config, double elements, const GroupShape& group, CollectiveCosts& costs) {
  const double gradients = elements * static_cast<double>(size_of(config.precision.gradient));
  const double parameters = elements * static_cast<double>(size_of(config.precision.parameter));
  if (config.zero == 0) return {costs.seconds(Collective::AllReduce, group, gradients), 0};
  return {costs.seconds(Collective::ReduceScatter, group, gradients),
          costs.seconds(Collective::AllGather, group, parameters)};
}

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
  const Elements held = most_held(q, config);
  const Exchanges shared = exchanges_of(config, held.shared, {shards, l.tp}, costs);
  const Exchanges experts = exchanges_of(config, held.experts, {copies, l.etp * l.ep}, costs);
  const Seconds sum = shared.sum + experts.sum, gather = shared.gather + experts.gather;
  const double owned = config.zero == 0 ? held.shared + held.experts : held.shared / shards + held.experts / copies;
  DataTimes times;
  times.optimizer = owned * kBytesOfUpdate / q.cluster.memory_bytes_per_s;
  if (q.model.tied && rank_of_stage(config, stages(config) - 1) != 0) {
    const int apart = ranks / l.pp * (l.pp - 1);
    const double table = number(rows_of({}, 0, l.tp, q.model.vocabulary).count() * q.model.hidden);
    times.embeddings = costs.message(apart, table * static_cast<double>(size_of(config.precision.parameter))) +
                       costs.message(apart, table * static_cast<double>(size_of(config.precision.gradient)));
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
  const Seconds in_backward = beyond(gather, layers, backward);
  times.parameters = passes_of_step * (beyond(gather, layers, forward) + in_backward);
  times.gradients = std::max(beyond(gather + sum, layers, backward) - in_backward, 0.0);
  return times;
}

}  // namespace sinew::parallel
