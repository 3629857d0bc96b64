#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <sinew/parallel/data/other_passes.hpp>
#include <sinew/parallel/step/passes.hpp>

namespace sinew::parallel {

StepGraph without_sync(const StepGraph& graph, std::size_t parameters, bool gathers) {
  std::vector<TensorId> dropped(graph.tensors.size());
  std::iota(dropped.begin(), dropped.end(), 0);
  if (gathers) dropped.erase(dropped.begin(), dropped.begin() + static_cast<std::ptrdiff_t>(parameters));
  StepGraph rest = drop_sync(graph, dropped);
  std::erase_if(rest.nodes, [](const Node& n) { return n.name == "optimizer" || n.name == "updated"; });
  return rest;
}

StepGraph forward_half(StepGraph graph, std::size_t parameters) {
  const auto is_forward = [](const Node& n) { return n.name.starts_with("forward "); };
  if (std::ranges::none_of(graph.nodes, is_forward)) return {std::move(graph.tensors), {}};
  std::set<TensorId> gathered,
      freed;  // the first of those that travel together: the second time is the backward half's
  std::set<std::int32_t> exchanges;
  std::vector<Node> kept;
  for (Node& n : graph.nodes) {
    const bool is_value = !n.tensors.empty() && static_cast<std::size_t>(n.tensors.front()) < parameters;
    bool keeps = false;
    if (n.kind == NodeKind::Gate || n.kind == NodeKind::Signal) keeps = is_forward(n);
    if (n.kind == NodeKind::AllGather) keeps = gathered.insert(n.tensors.front()).second;
    if (n.kind == NodeKind::Free) keeps = is_value && freed.insert(n.tensors.front()).second;
    if (n.kind == NodeKind::Wait) keeps = exchanges.contains(n.exchange);
    if (is_exchange(n.kind) && keeps) exchanges.insert(n.exchange);
    if (keeps) kept.push_back(std::move(n));
  }
  graph.nodes = std::move(kept);
  return graph;
}

}  // namespace sinew::parallel
