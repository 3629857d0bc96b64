#include <algorithm>

#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/passes/rebuilt.hpp>

namespace sinew::parallel {

StepGraph issue_early(StepGraph graph) {
  Rebuilt rebuilt(std::move(graph.nodes));
  std::vector<std::size_t> after(graph.tensors.size(), 0);  // one past the last node that named the tensor
  std::size_t earliest = 0;                                 // no exchange overtakes another
  for (std::size_t i = 0; i < rebuilt.nodes().size(); ++i) {
    const Node& node = rebuilt.nodes()[i];
    if (is_exchange(node.kind)) {
      for (const auto* tensors : {&node.tensors, &node.operands})
        for (const TensorId t : *tensors) earliest = std::max(earliest, after[static_cast<std::size_t>(t)]);
      if (node.room_of >= 0) earliest = std::max(earliest, after[static_cast<std::size_t>(node.room_of)]);
      rebuilt.move(i, earliest);
    }
    for (const TensorId t : node.tensors) after[static_cast<std::size_t>(t)] = i + 1;
  }
  graph.nodes = std::move(rebuilt).finish();
  return graph;
}

StepGraph wait_late(StepGraph graph) {
  Rebuilt rebuilt(std::move(graph.nodes));
  const std::size_t end = rebuilt.nodes().size();
  std::vector<std::size_t> next(graph.tensors.size(), end);  // the next node that names the tensor
  std::vector<std::pair<std::size_t, std::size_t>> moves;
  for (std::size_t i = end; i-- > 0;) {
    const Node& node = rebuilt.nodes()[i];
    if (node.kind == NodeKind::Wait) {
      std::size_t place = end;
      for (const TensorId t : node.tensors) place = std::min(place, next[static_cast<std::size_t>(t)]);
      moves.emplace_back(i, place);
      continue;
    }
    for (const auto* tensors : {&node.tensors, &node.operands})
      for (const TensorId t : *tensors) next[static_cast<std::size_t>(t)] = i;
  }
  std::ranges::reverse(moves);  // waits for the same node keep their order
  for (const auto& [from, to] : moves) rebuilt.move(from, to);
  graph.nodes = std::move(rebuilt).finish();
  return graph;
}

}  // namespace sinew::parallel
