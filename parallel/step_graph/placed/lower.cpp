#include <utility>

#include <sinew/parallel/step_graph/placed/lower.hpp>

namespace sinew::parallel {

StepGraph lower(const StepGraph& graph) {
  StepGraph lowered{graph.tensors, {}};
  for (const Node& node : graph.nodes) {
    const bool engine = node.kind == NodeKind::Compute || node.kind == NodeKind::Split;
    if (!engine) {
      lowered.nodes.push_back(node);
      if (is_exchange(node.kind) && !node.operands.empty())
        lowered.nodes.push_back({.kind = NodeKind::Wait, .tensors = node.tensors, .exchange = node.exchange});
      continue;
    }
    lowered.nodes.push_back({.kind = NodeKind::Gate, .name = node.name, .tensors = node.operands});
    lowered.nodes.push_back({.kind = NodeKind::Signal, .name = node.name, .tensors = node.tensors});
  }
  return lowered;
}

}  // namespace sinew::parallel
