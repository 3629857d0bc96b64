#include <cmath>

#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>
#include <sinew/parallel/data_parallel/wire/int4_blocks.hpp>
#include <sinew/parallel/planner/costs/data_exchanges.hpp>
#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>
#include <sinew/parallel/planner/model/number.hpp>

namespace sinew::parallel {
namespace {

HeldElements split_by_kind(const std::vector<Weight>& weights) {
  HeldElements held;
  for (const Weight& w : weights) (w.of_experts ? held.experts : held.shared) += number(w.elements);
  return held;
}

/// The exchanges of one kind of parameters.
class ExchangeTimes {
 public:
  /// group: the ranks that shard, or that have copies. near: those of them that are near each other.
  ExchangeTimes(const PlanQuestion& q, const JobConfig& config, CollectiveCosts& costs, double elements,
                const GroupShape& group, int near)
      : q_(q), config_(config), costs_(costs), elements_(elements), group_(group), near_{near, group.stride} {
    shard_ = static_cast<std::int64_t>(std::ceil(elements / group.ranks));
  }

  DataExchanges of_row() const {
    if (group_.ranks == 1) return {};
    if (config_.zero == 0) return {costs_.seconds(Collective::AllReduce, group_, gradient_bytes()), 0, 0};
    DataExchanges times{sum(), gather(), 0};
    times.gather_again =
        near_.ranks > 1 ? costs_.seconds(Collective::AllGather, near_, parameter_bytes()) : times.gather;
    if (!q_.offloads_shards) return times;
    const double rate = q_.store.bytes_per_s * group_.ranks;
    times.gather += parameter_bytes() / rate;
    if (near_.ranks == 1) times.gather_again += parameter_bytes() / rate;
    times.sum += gradient_bytes() / rate;
    return times;
  }

 private:
  double parameter_bytes() const noexcept {
    return elements_ * static_cast<double>(size_of(config_.precision.parameter));
  }
  double gradient_bytes() const noexcept {
    return elements_ * static_cast<double>(size_of(config_.precision.gradient));
  }
  Seconds moved(double bytes) const noexcept { return bytes / q_.cluster.memory_bytes_per_s; }

  Seconds gather() const {
    if (config_.weights == WeightWire::Plain) return costs_.seconds(Collective::AllGather, group_, parameter_bytes());
    const double codes = group_.ranks * static_cast<double>(int8_bytes(shard_));
    return costs_.seconds(Collective::AllGather, group_, codes) + moved(codes + parameter_bytes());
  }

  Seconds sum() const {
    if (!config_.int4_gradients) return costs_.seconds(Collective::ReduceScatter, group_, gradient_bytes());
    const auto shard_codes = static_cast<double>(int4_bytes(static_cast<std::size_t>(shard_)));
    if (near_.ranks == 1) return sum_by_codes(group_, gradient_bytes(), group_.ranks * shard_codes);
    const GroupShape far{group_.ranks / near_.ranks, group_.stride * near_.ranks};
    const double of_far = far.ranks * static_cast<double>(shard_) * static_cast<double>(size_of(DType::F32));
    return sum_by_codes(near_, gradient_bytes(), group_.ranks * shard_codes) +
           sum_by_codes(far, of_far, far.ranks * shard_codes);
  }
  /// One stage of a sum: encode, send, decode and add.
  Seconds sum_by_codes(const GroupShape& ranks, double plain, double codes) const {
    if (ranks.ranks == 1) return 0;
    return costs_.seconds(Collective::AllToAll, ranks, codes) + moved(plain + 2 * codes + plain / ranks.ranks);
  }

  const PlanQuestion& q_;
  const JobConfig& config_;
  CollectiveCosts& costs_;
  double elements_;
  GroupShape group_, near_;
  std::int64_t shard_ = 0;
};

}  // namespace

std::vector<HeldElements> elements_of_stages(const PlanQuestion& q, const JobConfig& config) {
  const WeightPart part{0, config.layout.tp, config.layout.ep};
  ByLayerKind<HeldElements> of_kind;
  const auto of_layer = [&](std::int64_t layer) { return split_by_kind(layer_weights(q.model, layer, part)); };
  std::vector<HeldElements> stages_of;
  for (const Rows& rows : layers_of_stages(q.model.layers, stages(config))) {
    HeldElements here;
    for (std::int64_t l = rows.first; l < rows.last; ++l) here += of_kind.of(q.model, l, of_layer);
    stages_of.push_back(here);
  }
  stages_of.front() += split_by_kind(input_weights(q.model, part));
  stages_of.back() += split_by_kind(output_weights(q.model, part));
  return stages_of;
}

HeldElements most_held(const PlanQuestion& q, const JobConfig& config) {
  const std::vector<HeldElements> of_stages = elements_of_stages(q, config);
  std::vector<HeldElements> by_rank(static_cast<std::size_t>(config.layout.pp));
  for (std::size_t s = 0; s < of_stages.size(); ++s)
    by_rank[static_cast<std::size_t>(rank_of_stage(config, static_cast<std::int32_t>(s)))] += of_stages[s];
  HeldElements most;
  for (const HeldElements& here : by_rank) {
    if (here.all() > most.all()) most = here;
  }
  return most;
}

DataExchanges data_exchanges(const PlanQuestion& q, const JobConfig& config, const HeldElements& held,
                             CollectiveCosts& costs) {
  const LayoutSizes& l = config.layout;
  const int ranks = q.ranks(), shards = ranks / (l.tp * l.pp), copies = ranks / (l.etp * l.ep * l.pp);
  const int near = config.near_ranks > 1 ? config.near_ranks * l.cp : 1;
  const DataExchanges shared = ExchangeTimes(q, config, costs, held.shared, {shards, l.tp}, near).of_row();
  if (held.experts == 0) return shared;
  const DataExchanges experts = ExchangeTimes(q, config, costs, held.experts, {copies, l.etp * l.ep}, 1).of_row();
  return {shared.sum + experts.sum, shared.gather + experts.gather, shared.gather_again + experts.gather_again};
}

}  // namespace sinew::parallel
