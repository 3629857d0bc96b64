#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <sinew/parallel/data_parallel/plan/pass_graphs.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {
namespace {

StepGraph forward_half(StepGraph graph) {
  const auto is_forward = [](const Node& n) { return n.name.starts_with("forward "); };
  if (std::ranges::none_of(graph.nodes, is_forward)) return {std::move(graph.tensors), {}};
  std::set<TensorId> gathered;  // the first tensor of each gather; a second gather of it is the backward half's
  std::set<std::int32_t> exchanges;
  std::vector<Node> kept;
  for (Node& n : graph.nodes) {
    const bool is_end = n.kind == NodeKind::Signal && is_forward(n);
    bool keeps = is_end || (n.kind == NodeKind::Gate && is_forward(n));
    if (n.kind == NodeKind::AllGather) keeps = gathered.insert(n.tensors.front()).second;
    if (n.kind == NodeKind::Wait) keeps = exchanges.contains(n.exchange);
    if (is_exchange(n.kind) && keeps) exchanges.insert(n.exchange);
    if (keeps) kept.push_back(std::move(n));
    if (is_end) kept.push_back({.kind = NodeKind::Free, .tensors = kept.back().tensors});
  }
  graph.nodes = std::move(kept);
  return graph;
}

}  // namespace

StepGraph without_sync(const StepGraph& graph, std::size_t parameters, bool gathers) {
  std::vector<TensorId> dropped(graph.tensors.size());
  std::iota(dropped.begin(), dropped.end(), 0);
  if (gathers) dropped.erase(dropped.begin(), dropped.begin() + static_cast<std::ptrdiff_t>(parameters));
  StepGraph rest = drop_sync(graph, dropped);
  std::erase_if(rest.nodes, [](const Node& n) { return n.name == "optimizer" || n.name == "updated"; });
  return rest;
}

StepGraph forward_graph(const StepPlan& plan) { return plan.forward ? *plan.forward : forward_half(plan.graph); }

}  // namespace sinew::parallel
