#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>

namespace sinew::parallel {
namespace {

bool has_kind(const PipelineSchedule& schedule, ActionKind kind) {
  return std::ranges::any_of(schedule.actions, [&](const std::vector<Action>& of_rank) {
    return std::ranges::find(of_rank, kind, &Action::kind) != of_rank.end();
  });
}

void require_units_of_rank(const PipelineSchedule& schedule, std::int32_t rank, const StageUnits& units) {
  std::map<std::string_view, std::int32_t> stage_of;
  for (const auto& [stage, names] : units) {
    if (stage < 0 || stage >= schedule.stages() || schedule.rank_of[static_cast<std::size_t>(stage)] != rank)
      throw Error(Code::InvalidArgument, fmt::format("units of stage {}, expected a stage that '{}' has on rank {}",
                                                     stage, schedule.name, rank));
    for (const std::string& name : names) {
      const auto [other, is_new] = stage_of.emplace(name, stage);
      if (!is_new)
        throw Error(Code::InvalidArgument, fmt::format("unit '{}' belongs to stage {} and to stage {}, expected one",
                                                       name, other->second, stage));
    }
  }
}

/// Turns the actions on stages into actions on their units.
std::vector<UnitAction> order_by_stage(const std::vector<Action>& actions, const StageUnits& units) {
  std::vector<UnitAction> order;
  std::set<std::int32_t> unused, adding;  // stages: unsharded and not yet used; with gradients that are not reduced
  const auto add = [&](UnitActionKind kind, std::int32_t stage, bool is_backward) {
    const auto found = units.find(stage);
    if (found == units.end()) return;
    const std::vector<std::string>& names = found->second;
    const std::size_t count = names.size();
    for (std::size_t i = 0; i < count; ++i) order.push_back({kind, names[is_backward ? count - 1 - i : i]});
  };
  for (const Action& a : actions) {
    const bool is_gradient = a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient;
    const bool is_backward = is_gradient || a.kind == ActionKind::InputGradient;
    if (is_compute(a.kind) && unused.erase(a.stage) > 0) add(UnitActionKind::Use, a.stage, is_backward);
    if (is_gradient && adding.insert(a.stage).second) add(UnitActionKind::AddGradients, a.stage, true);
    if (a.kind == ActionKind::Unshard && unused.insert(a.stage).second) add(UnitActionKind::Unshard, a.stage, false);
    if (a.kind == ActionKind::Reshard) {
      unused.erase(a.stage);
      add(UnitActionKind::Reshard, a.stage, false);
    }
    if (a.kind != ActionKind::Reduce) continue;
    adding.erase(a.stage);
    add(UnitActionKind::Reduce, a.stage, true);
  }
  return order;
}

/// Turns computes of stages into passes of their units, one after the other.
class PassesOfUnits {
 public:
  PassesOfUnits(const StageUnits& units, const std::set<std::string>& outer) : units_(units), outer_(outer) {}

  std::vector<UnitAction> run(const std::vector<Action>& actions) && {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!is_compute(actions[i].kind)) continue;
      const auto found = units_.find(actions[i].stage);
      if (found == units_.end()) continue;
      const bool reduces = std::find(actions.begin() + static_cast<std::ptrdiff_t>(i), next_compute(actions, i),
                                     Action{ActionKind::Reduce, actions[i].stage}) != next_compute(actions, i);
      pass(actions[i].kind, found->second, reduces);
    }
    return std::move(order_);
  }

 private:
  static std::vector<Action>::const_iterator next_compute(const std::vector<Action>& actions, std::size_t i) {
    return std::find_if(actions.begin() + static_cast<std::ptrdiff_t>(i) + 1, actions.end(),
                        [](const Action& a) { return is_compute(a.kind); });
  }

  void add(UnitActionKind kind, const std::string& unit) { order_.push_back({kind, unit}); }
  void begin(const std::string& unit, bool is_gradient) {
    add(UnitActionKind::Use, unit);
    if (is_gradient && adding_.insert(unit).second) add(UnitActionKind::AddGradients, unit);
  }
  void end(const std::string& unit, bool reduces) {
    if (reduces) add(UnitActionKind::Reduce, unit);
    if (reduces) adding_.erase(unit);
    add(UnitActionKind::Reshard, unit);
  }

  void pass(ActionKind kind, const std::vector<std::string>& names, bool reduces) {
    const bool is_gradient = kind == ActionKind::Backward || kind == ActionKind::WeightGradient;
    std::vector<std::string> inner, outer;
    for (const std::string& name : names) (outer_.contains(name) ? outer : inner).push_back(name);
    if (is_gradient || kind == ActionKind::InputGradient) std::ranges::reverse(inner);
    for (const std::string& unit : outer) add(UnitActionKind::Unshard, unit);
    for (std::size_t i = 0; i < std::min<std::size_t>(inner.size(), 2); ++i) add(UnitActionKind::Unshard, inner[i]);
    for (const std::string& unit : outer) begin(unit, is_gradient);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      begin(inner[i], is_gradient);
      end(inner[i], reduces);
      if (i + 2 < inner.size()) add(UnitActionKind::Unshard, inner[i + 2]);
    }
    for (const std::string& unit : outer) end(unit, reduces);
  }

  const StageUnits& units_;
  const std::set<std::string>& outer_;
  std::set<std::string> adding_;  // units with gradients that are not reduced
  std::vector<UnitAction> order_;
};

StageBytes sum_of_bytes(const StageBytes& a, const StageBytes& b) {
  return {a.parameters + b.parameters, a.gradients + b.gradients, a.shard + b.shard};
}

}  // namespace

UnitOrder unit_order_of(const PipelineSchedule& schedule, std::int32_t rank, const StageUnits& units,
                        UnitGathers unit_gathers, const std::set<std::string>& outer) {
  require_units_of_rank(schedule, rank, units);
  const bool gathers = has_kind(schedule, ActionKind::Unshard), reduces = has_kind(schedule, ActionKind::Reduce);
  if (gathers && !reduces)
    throw Error(Code::InvalidArgument,
                fmt::format("schedule '{}' has Unshard and no Reduce, expected both, or none of them", schedule.name));
  const PipelineSchedule all = reduces ? schedule : with_sharding(schedule, std::max(schedule.stages(), 1));
  const auto r = static_cast<std::size_t>(rank);
  const PipelineSchedule forward = forward_only(all);
  if (unit_gathers == UnitGathers::ByUnit)
    return {PassesOfUnits(units, outer).run(all.actions[r]), PassesOfUnits(units, outer).run(forward.actions[r])};
  return {order_by_stage(all.actions[r], units), order_by_stage(forward.actions[r], units)};
}

StageBytes unit_bytes(const std::vector<DataParameter>& parameters, const DataRow& row, int shards,
                      const std::set<std::string>& outer) {
  StageBytes always, most, before;
  for (std::size_t first = 0; first < parameters.size();) {
    const std::string& unit = parameters[first].unit;
    std::size_t last = first;
    while (last < parameters.size() && parameters[last].unit == unit) ++last;
    const auto begin = parameters.begin() + static_cast<std::ptrdiff_t>(first);
    const StageBytes own = stage_bytes({begin, begin + static_cast<std::ptrdiff_t>(last - first)}, row, shards);
    first = last;
    if (outer.contains(unit)) {
      always = sum_of_bytes(always, own);
      continue;
    }
    const StageBytes two = sum_of_bytes(before, own);
    most = {std::max(most.parameters, two.parameters), std::max(most.gradients, two.gradients),
            std::max(most.shard, two.shard)};
    before = own;
  }
  return sum_of_bytes(always, most);
}

UnitOrder with_outer_unit(UnitOrder order, const std::string& unit) {
  using Kind = UnitActionKind;
  const auto around = [&](std::vector<UnitAction>& actions, const std::vector<Kind>& before,
                          const std::vector<Kind>& after) {
    std::vector<UnitAction> all;
    for (const Kind kind : before) all.push_back({kind, unit});
    all.insert(all.end(), actions.begin(), actions.end());
    for (const Kind kind : after) all.push_back({kind, unit});
    actions = std::move(all);
  };
  around(order.training, {Kind::Unshard, Kind::Use, Kind::AddGradients}, {Kind::Reduce, Kind::Reshard});
  around(order.evaluation, {Kind::Unshard, Kind::Use}, {Kind::Reshard});
  return order;
}

StageBytes stage_bytes(const std::vector<DataParameter>& parameters, const DataRow& row, int shards) {
  const DataAxis sharded = sharded_axis(row);
  StageBytes bytes;
  for (const DataParameter& p : complete_parameters(parameters)) {
    const auto values = p.elements * static_cast<std::int64_t>(size_of(p.dtype));
    const auto gradients = p.elements * static_cast<std::int64_t>(size_of(p.gradient_dtype()));
    if (sharded.parameter == Held::Sharded) bytes.parameters += values;
    if (sharded.gradient == Held::Sharded) {
      bytes.gradients += gradients;
      bytes.shard += gradients / shards;
    }
  }
  return bytes;
}

}  // namespace sinew::parallel
