#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/planner/costs/pipeline_costs.hpp>
#include <sinew/parallel/planner/costs/planned_engine.hpp>

namespace sinew::parallel {
namespace {

constexpr int kBoundaryPlaces = 4;  // two for data to send, two for data to receive

/// Collects the parameters of a rank.
class ParameterListing {
 public:
  ParameterListing(const JobConfig& config, bool of_experts) : config_(config), of_experts_(of_experts) {}

  /// name: the first part of the parameters' names.
  void add(const std::string& name, const std::string& unit, const std::vector<Weight>& weights) {
    for (const Weight& w : weights) {
      if (w.elements == 0 || w.of_experts != of_experts_) continue;
      all_.push_back({.path = name + "." + w.name,
                      .dtype = config_.precision.parameter,
                      .elements = w.elements,
                      .unit = unit,
                      .gradient = config_.precision.gradient});
    }
  }
  std::vector<DataParameter> take() { return std::move(all_); }

 private:
  const JobConfig& config_;
  bool of_experts_;
  std::vector<DataParameter> all_;
};

/// The stage of a unit that planned_parameters() names.
std::int32_t stage_of_unit(std::int64_t layers, const JobConfig& config, const std::string& unit) {
  const std::int32_t all = stages(config);
  if (unit == "input") return 0;
  if (unit == "output") return all - 1;
  const std::int64_t layer = std::stoll(unit.substr(std::string("layers.").size()));
  auto stage = static_cast<std::int32_t>(layer * all / layers);
  while (rows_of({}, stage, all, layers).first > layer) --stage;
  while (rows_of({}, stage, all, layers).last <= layer) ++stage;
  return stage;
}

/// The most ranks that can share the heads or channels of all layers.
int most_tensor_ranks(const ModelShape& m) {
  const std::int64_t of_state = m.mamba == 2 ? m.state_heads() : m.channels();
  if (m.mamba == 0) return static_cast<int>(m.heads);
  return static_cast<int>(m.attention_every > 0 ? std::min(m.heads, of_state) : of_state);
}

}  // namespace

std::vector<Rows> layers_of_stages(std::int64_t layers, int stages) {
  std::vector<Rows> all;
  for (int s = 0; s < stages; ++s) all.push_back(rows_of({}, s, stages, layers));
  return all;
}

std::vector<DataParameter> planned_parameters(const PlanQuestion& q, const JobConfig& config, const RankPlace& place,
                                              bool of_experts) {
  const ModelShape& model = q.model;
  const WeightPart part{place.tp, config.layout.tp, config.layout.ep};
  const int all = stages(config);
  const auto unit = [&](std::string alone, std::string in_stage) {
    if (all == 1) return alone;
    return q.stage_actions ? in_stage : std::string("stages");
  };
  const std::vector<Rows> layers = layers_of_stages(model.layers, all);
  ParameterListing list(config, of_experts);
  if (place.pp == 0) list.add("root", unit("root", "input"), input_weights(model, part));
  if (rank_of_stage(config, all - 1) == place.pp) list.add("root", unit("root", "output"), output_weights(model, part));
  for (int s = 0; s < all; ++s) {
    if (rank_of_stage(config, s) != place.pp) continue;
    const Rows& here = layers[static_cast<std::size_t>(s)];
    for (std::int64_t l = here.first; l < here.last; ++l) {
      const std::string name = fmt::format("layers.{}", l);
      list.add(name, unit(name, name), layer_weights(model, l, part));
    }
  }
  return list.take();
}

std::vector<StageActivations> planned_activations(const PlanQuestion& q, const JobConfig& config) {
  const LayerInput in = layer_input(q, config);
  const int all = stages(config), pp = config.layout.pp;
  const std::vector<LayerTreatment> treatments = treatment_of_layers(q, config.recompute);
  std::array<ByLayerKind<LayerActivations>, 3> of_kind;  // by recomputation
  const std::vector<Rows> layers = layers_of_stages(q.model.layers, all);
  std::vector<StageActivations> by_rank(static_cast<std::size_t>(pp));
  for (int s = 0; s < all; ++s) {
    StageActivations& rank = by_rank[static_cast<std::size_t>(rank_of_stage(config, s))];
    double kept = s == 0 ? input_activations(q.model, in) : 0, again = 0, stored = 0, most_stored = 0;
    const Rows& here = layers[static_cast<std::size_t>(s)];
    for (std::int64_t l = here.first; l < here.last; ++l) {
      const LayerTreatment& t = treatments[static_cast<std::size_t>(l)];
      const LayerActivations& of = of_kind[static_cast<std::size_t>(t.recompute)].of(
          q.model, l, [&](std::int64_t layer) { return layer_activations(q.model, layer, in, t.recompute); });
      (t.is_offloaded ? stored : kept) += of.kept;
      if (t.is_offloaded) most_stored = std::max(most_stored, of.kept);
      again = std::max(again, of.made_again);
    }
    rank.each = std::max(rank.each, kept);
    rank.stored_each = std::max(rank.stored_each, stored);
    // The layer that computes has its arrays, and others are on their way.
    again += std::min(stored, most_stored + static_cast<double>(q.store.window_bytes));
    rank.once = std::max(rank.once, again);
  }
  if (all > 1) {
    for (StageActivations& rank : by_rank) rank.once += kBoundaryPlaces * boundary_bytes(q.model, in);
  }
  StageActivations& end = by_rank[static_cast<std::size_t>(rank_of_stage(config, all - 1))];
  end.output = output_activations(q.model, in);
  if (q.model.tied &&
      rank_of_stage(config, all - 1) != 0) {  // the last stage has a copy of the embeddings, and its gradient
    const Precision& p = config.precision;
    const std::int64_t table = rows_of({}, 0, in.tp, q.model.vocabulary).count() * q.model.hidden;
    end.once += static_cast<double>(table) * static_cast<double>(size_of(p.parameter) + size_of(p.gradient));
  }
  return by_rank;
}

EngineFacts planned_engine(const PlanQuestion& question) {
  EngineFacts facts;
  facts.axes = {"dp", "tp", "cp", "pp"};
  facts.most_tp = most_tensor_ranks(question.model);
  facts.most_pp = static_cast<int>(question.model.layers);
  facts.most_cp = question.sequence;
  facts.sequence_parallel = true;
  facts.parameters = [question](const JobConfig& config, const RankPlace& place) {
    return planned_parameters(question, config, place, false);
  };
  facts.takes_stage_actions = question.stage_actions;
  facts.stage_of_unit = [layers = question.model.layers](const JobConfig& config, const std::string& unit) {
    return stage_of_unit(layers, config, unit);
  };
  if (question.model.experts > 0) {
    facts.axes.emplace_back("ep");
    facts.experts = question.model.experts;
    facts.expert_parameters = [question](const JobConfig& config, const RankPlace& place) {
      return planned_parameters(question, config, place, true);
    };
  }
  facts.activation_bytes = [question](const JobConfig& config, std::int64_t, const RankPlace& place) {
    const auto pp = static_cast<std::size_t>(place.pp);
    const LiveStages live = stages(config) > 1 ? live_stages(schedule_shape(config)) : LiveStages{{1}};
    return static_cast<std::size_t>(planned_activations(question, config)[pp].sum(live.by_rank[pp], live.outputs));
  };
  facts.outer_unit = "root";
  facts.identity = question.model.name;
  return facts;
}

}  // namespace sinew::parallel
