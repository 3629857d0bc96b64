#include <map>
#include <string_view>
#include <utility>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/data_parallel/pass_runner.hpp>

namespace sinew::parallel {

PassRunner::PassRunner(StepGraph graph, StepActions& actions, const std::vector<DataParameter>& parameters,
                       const std::vector<std::string>& units)
    : runner(std::move(graph), actions) {
  std::map<std::pair<NodeKind, std::string_view>, std::int32_t> by_name;
  for (const Node& node : runner.graph().nodes)
    by_name.emplace(std::pair(node.kind, std::string_view(node.name)),
                    static_cast<std::int32_t>(&node - runner.graph().nodes.data()));
  const auto find = [&](NodeKind kind, const std::string& name) {
    const auto found = by_name.find({kind, name});
    return found == by_name.end() ? -1 : found->second;
  };
  for (const std::string& unit : units)
    by_unit.push_back({find(NodeKind::Gate, "forward " + unit), find(NodeKind::Signal, "forward done " + unit),
                       find(NodeKind::Gate, "backward " + unit), find(NodeKind::Signal, "backward done " + unit)});
  for (const DataParameter& p : parameters) gradients.push_back(find(NodeKind::Signal, "gradient " + p.path));
  optimizer = find(NodeKind::Gate, "optimizer");
  updated = find(NodeKind::Signal, "updated");
  find_scheduled_nodes(units);
}

void PassRunner::find_scheduled_nodes(const std::vector<std::string>& units) {
  std::map<std::string_view, UnitNodes*> nodes_of;
  for (std::size_t u = 0; u < units.size(); ++u) nodes_of[units[u]] = &by_unit[u];
  for (std::int32_t i = 0; i < std::ssize(runner.graph().nodes); ++i) {
    const Node& node = runner.graph().nodes[static_cast<std::size_t>(i)];
    const std::string_view name = node.name;
    const auto unit_after = [&](std::string_view word) {
      const auto found = name.starts_with(word) ? nodes_of.find(name.substr(word.size())) : nodes_of.end();
      return found == nodes_of.end() ? nullptr : found->second;
    };
    if (node.kind == NodeKind::Signal) {
      if (UnitNodes* const of = unit_after("unshard ")) of->unshards.push_back(i), of->uses.push_back(-1);
      if (UnitNodes* const of = unit_after("reshard ")) of->reshards.push_back(i);
      if (UnitNodes* const of = unit_after("reduce ")) of->reduces.push_back(i);
    } else if (node.kind == NodeKind::Gate) {
      if (UnitNodes* const of = unit_after("use ")) of->uses.back() = i;
      if (UnitNodes* const of = unit_after("gradients ")) of->gradients.push_back(i);
    }
  }
}

std::vector<std::int32_t> PassRunner::order_of_gradients() const {
  std::map<std::int32_t, std::int32_t> parameter_of;
  for (std::size_t p = 0; p < gradients.size(); ++p) parameter_of.emplace(gradients[p], static_cast<std::int32_t>(p));
  std::vector<std::int32_t> order;
  for (const std::int32_t node : runner.reported()) {
    const auto p = parameter_of.find(node);
    if (p != parameter_of.end()) order.push_back(p->second);
  }
  return order;
}

void PassRunner::signal_next(StepProtocol::UnitCallKind kind, std::int32_t unit) {
  const UnitNodes& nodes = by_unit[at(unit)];
  using enum StepProtocol::UnitCallKind;
  const std::vector<std::int32_t>& signals = kind == Unshard   ? nodes.unshards
                                             : kind == Reshard ? nodes.reshards
                                                               : nodes.reduces;
  const std::size_t next = reported(signals);
  if (next < signals.size()) runner.signal(signals[next]);
}

void PassRunner::begin_use(std::int32_t unit) {
  const UnitNodes& nodes = by_unit[at(unit)];
  const std::size_t begun = reported(nodes.unshards);
  if (begun > 0) gate_once(nodes.uses[begun - 1]);
}

bool PassRunner::begin_gradients(std::int32_t unit) {
  begin_use(unit);
  const UnitNodes& nodes = by_unit[at(unit)];
  const std::size_t reduced = reported(nodes.reduces);
  if (reduced < nodes.gradients.size()) gate_once(nodes.gradients[reduced]);
  return nodes.gradients.empty() || reduced < nodes.gradients.size();
}

}  // namespace sinew::parallel
