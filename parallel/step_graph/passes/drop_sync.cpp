#include <sinew/parallel/step_graph/passes/passes.hpp>

namespace sinew::parallel {

StepGraph drop_sync(StepGraph graph, const std::vector<TensorId>& tensors) {
  std::vector<bool> gone(graph.tensors.size(), false);
  for (const TensorId t : tensors) gone[static_cast<std::size_t>(t)] = true;
  const auto is_gone = [&](TensorId t) { return gone[static_cast<std::size_t>(t)]; };
  for (Node& node : graph.nodes) {
    if (node.kind != NodeKind::Gate && node.kind != NodeKind::Signal) std::erase_if(node.tensors, is_gone);
  }
  std::erase_if(graph.nodes, [](const Node& node) {
    return node.kind != NodeKind::Gate && node.kind != NodeKind::Signal && node.tensors.empty();
  });
  return graph;
}

}  // namespace sinew::parallel
