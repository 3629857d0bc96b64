#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/plan/scheduled_step.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {
namespace {

using ParameterNumbers = std::vector<std::int32_t>;

/// The parameters of a unit, all together and by the dtypes of the exchanges that carry them.
struct UnitMembers {
  ParameterNumbers all;
  std::vector<ParameterNumbers> groups;
};

std::map<std::string, UnitMembers> members_by_unit(const std::vector<DataParameter>& parameters) {
  std::map<std::string, std::map<std::pair<DType, DType>, ParameterNumbers>> by_dtype;
  std::map<std::string, UnitMembers> units;
  for (std::int32_t i = 0; i < std::ssize(parameters); ++i) {
    const DataParameter& p = parameters[at(i)];
    units[p.unit].all.push_back(i);
    by_dtype[p.unit][{p.dtype, p.gradient_dtype()}].push_back(i);
  }
  for (auto& [unit, groups] : by_dtype) {
    for (auto& [dtypes, ids] : groups) units[unit].groups.push_back(std::move(ids));
  }
  return units;
}

class ScheduledPlanner {
 public:
  ScheduledPlanner(const std::vector<DataParameter>& parameters, const DataRow& row)
      : count_(static_cast<std::int32_t>(parameters.size())),
        sharded_(sharded_axis(row)),
        units_(members_by_unit(parameters)) {
    for (const DataAxis& a : row.axes) {
      if (a.optimizer == Held::Whole) whole_ += (whole_.empty() ? "" : "-") + a.axis;
    }
    for (const DataParameter& p : parameters) plan_.graph.tensors.push_back({p.path, p.path, p.dtype, p.elements});
    for (const DataParameter& p : parameters)
      plan_.graph.tensors.push_back({p.path + " gradient", p.path, p.gradient_dtype(), p.elements, p.dtype});
    for (const DataParameter& p : parameters) {  // in the order of the units' first parameters
      const UnitMembers& unit = units_.at(p.unit);
      if (parameters[at(unit.all.front())].path == p.path)
        plan_.groups.insert(plan_.groups.end(), unit.groups.begin(), unit.groups.end());
    }
  }

  StepPlan run(const UnitOrder& order) && {
    plan_.forward = StepGraph{.tensors = plan_.graph.tensors};
    for (const UnitAction& action : order.evaluation) take_gather(action, units_.at(action.unit));
    plan_.forward->nodes = std::exchange(nodes_, {});
    *plan_.forward = wait_late(std::move(*plan_.forward));
    next_ = 0;
    for (const UnitAction& action : order.training) {
      if (action.kind == UnitActionKind::Reduce) ++reduces_left_[action.unit];
    }
    for (const UnitAction& action : order.training) take(action);
    update();
    plan_.graph.nodes = std::move(nodes_);
    plan_.graph = wait_late(std::move(plan_.graph));
    return std::move(plan_);
  }

 private:
  bool gathers() const noexcept { return sharded_.parameter == Held::Sharded; }
  bool scatters() const noexcept { return sharded_.gradient == Held::Sharded; }
  ParameterNumbers gradients_of(ParameterNumbers parameters) const {
    for (std::int32_t& id : parameters) id += count_;
    return parameters;
  }

  void add(Node node) { nodes_.push_back(std::move(node)); }
  void exchange(NodeKind kind, const ParameterNumbers& tensors, const std::string& axes, bool parts = false,
                bool adds = false) {
    add({.kind = kind, .tensors = tensors, .axes = axes, .exchange = next_, .parts = parts, .adds = adds});
    add({.kind = NodeKind::Wait, .tensors = tensors, .exchange = next_++});
  }

  /// The actions on parameters. The other kinds have no effect on them.
  void take_gather(const UnitAction& action, const UnitMembers& unit) {
    if (!gathers()) return;
    if (action.kind == UnitActionKind::Unshard) {
      add({.kind = NodeKind::Signal, .name = "unshard " + action.unit, .tensors = unit.all});
      unused_.insert(action.unit);
      for (const ParameterNumbers& group : unit.groups) exchange(NodeKind::AllGather, group, sharded_.axis);
    } else if (action.kind == UnitActionKind::Use) {
      use(action.unit, unit);
    } else if (action.kind == UnitActionKind::Reshard) {
      if (unused_.contains(action.unit)) use(action.unit, unit);
      add({.kind = NodeKind::Signal, .name = "reshard " + action.unit, .tensors = unit.all});
      add({.kind = NodeKind::Free, .tensors = unit.all});
    }
  }

  void use(const std::string& name, const UnitMembers& unit) {
    unused_.erase(name);
    add({.kind = NodeKind::Gate, .name = "use " + name, .tensors = unit.all});
  }

  void take(const UnitAction& action) {
    const UnitMembers& unit = units_.at(action.unit);
    take_gather(action, unit);
    if (action.kind == UnitActionKind::AddGradients) begin_gradients(action.unit, unit);
    if (action.kind == UnitActionKind::Reduce) reduce(action.unit, unit);
  }

  void begin_gradients(const std::string& name, const UnitMembers& unit) {
    Node gate{
        .kind = NodeKind::Gate, .name = "gradients " + name, .tensors = gradients_of(unit.all), .parts = scatters()};
    std::erase(recent_, name);
    std::erase(older_, name);
    for (const std::string& unit_before : std::exchange(older_, {})) {
      const ParameterNumbers gone = gradients_of(units_.at(unit_before).all);
      gate.operands.insert(gate.operands.end(), gone.begin(), gone.end());
    }
    add(std::move(gate));
    adds_up_ = true;
  }

  void reduce(const std::string& name, const UnitMembers& unit) {
    add({.kind = NodeKind::Signal, .name = "reduce " + name, .tensors = gradients_of(unit.all)});
    const bool is_last = --reduces_left_[name] == 0, adds = std::exchange(has_sum_[name], true);
    for (const ParameterNumbers& group : unit.groups) {
      const ParameterNumbers gradients = gradients_of(group);
      if (sharded_.optimizer == Held::Whole) {
        exchange(NodeKind::AllReduce, gradients, whole_);
        continue;
      }
      exchange(NodeKind::ReduceScatter, gradients, sharded_.axis, false, adds);
      const Node free{.kind = NodeKind::Free, .tensors = gradients};
      if (adds) add(free);  // which adds the sum to those before, so that the parts are complete
      if (is_last && !whole_.empty()) exchange(NodeKind::AllReduce, gradients, whole_, true);
      if (scatters() && !adds) add(free);
    }
    if (!scatters()) return;
    if (std::exchange(adds_up_, false)) older_.insert(older_.end(), recent_.begin(), recent_.end()), recent_.clear();
    recent_.push_back(name);
  }

  void update() {
    ParameterNumbers all(at(count_));
    std::iota(all.begin(), all.end(), 0);
    add({.kind = NodeKind::Gate, .name = "optimizer", .tensors = gradients_of(all), .parts = scatters()});
    add({.kind = NodeKind::Signal, .name = "updated", .tensors = all});
    if (gathers() || sharded_.optimizer == Held::Whole) return;
    for (const ParameterNumbers& group : plan_.groups) exchange(NodeKind::AllGather, group, sharded_.axis);
  }

  std::int32_t count_;
  DataAxis sharded_;   // the axis that shards; its name is empty if no axis does
  std::string whole_;  // all other axes, flattened
  std::map<std::string, UnitMembers> units_;
  std::set<std::string> unused_;  // units that were unsharded and not used
  std::map<std::string, int> reduces_left_;
  std::map<std::string, bool> has_sum_;
  // Units whose sums no gate has waited for. recent_: those that were reduced since gradients were added up last.
  std::vector<std::string> recent_, older_;
  bool adds_up_ = false;  // whether the last action on gradients was AddGradients
  std::vector<Node> nodes_;
  std::int32_t next_ = 0;
  StepPlan plan_;
};

}  // namespace

StepPlan plan_scheduled_step(const std::vector<DataParameter>& parameters, const DataRow& row, const UnitOrder& order) {
  return ScheduledPlanner(parameters, row).run(order);
}

}  // namespace sinew::parallel
