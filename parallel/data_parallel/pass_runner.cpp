#include <map>
#include <string_view>
#include <utility>

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
}

}  // namespace sinew::parallel
