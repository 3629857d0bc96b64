#include <sinew/parallel/step_graph/held_tensors.hpp>

namespace sinew::parallel {

HeldTensors::HeldTensors(const StepGraph& graph)
    : graph_(graph), held_(graph.tensors.size(), false), stays_(graph.nodes.size(), false) {
  std::vector<bool> freed_next(graph.tensors.size(), false);  // whether a Free comes before the next exchange
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    for (const TensorId t : node.tensors) {
      const auto k = static_cast<std::size_t>(t);
      if (node.kind == NodeKind::Wait && freed_next[k]) stays_[i] = true;
      if (node.kind == NodeKind::Free || is_exchange(node.kind)) freed_next[k] = node.kind == NodeKind::Free;
    }
  }
}

void HeldTensors::end(std::size_t node) {
  const Node& n = graph_.nodes[node];
  const bool lets_go = n.kind == NodeKind::Free || (n.kind == NodeKind::Wait && !stays_[node]);
  if (!lets_go) return;
  for (const TensorId t : n.tensors) hold(t, false);
}

void HeldTensors::hold(TensorId tensor, bool yes) {
  const auto i = static_cast<std::size_t>(tensor);
  if (held_[i] == yes) return;
  held_[i] = yes;
  bytes_ += yes ? graph_.tensors[i].bytes() : -graph_.tensors[i].bytes();
}

}  // namespace sinew::parallel
