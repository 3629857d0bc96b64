#include <algorithm>

#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {
namespace {

/// The last nodes that named a tensor, as far as later ones have to wait for them.
struct Last {
  std::vector<std::int32_t> signals;  // since the last other node
  std::int32_t other = -1;            // exchange, wait or free
};

}  // namespace

std::vector<std::vector<std::int32_t>> needs_of(const StepGraph& graph) {
  std::vector<std::vector<std::int32_t>> needs(graph.nodes.size());
  std::vector<Last> last(graph.tensors.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto self = static_cast<std::int32_t>(i);
    if (node.room_of >= 0) {
      const std::int32_t gives = last[static_cast<std::size_t>(node.room_of)].other;
      if (gives >= 0) needs[i].push_back(gives);
    }
    for (const TensorId t : node.tensors) {
      Last& l = last[static_cast<std::size_t>(t)];
      if (node.kind == NodeKind::Signal) {
        l.signals.push_back(self);
        continue;
      }
      if (node.kind == NodeKind::Gate) {
        if (l.other >= 0) needs[i].push_back(l.other);
        continue;
      }
      needs[i].insert(needs[i].end(), l.signals.begin(), l.signals.end());
      if (l.other >= 0) needs[i].push_back(l.other);
      l = {{}, self};
    }
    for (const TensorId t : node.operands) {
      const Last& l = last[static_cast<std::size_t>(t)];
      needs[i].insert(needs[i].end(), l.signals.begin(), l.signals.end());
      if (l.other >= 0) needs[i].push_back(l.other);
    }
    std::ranges::sort(needs[i]);
    const auto twice = std::ranges::unique(needs[i]);
    needs[i].erase(twice.begin(), twice.end());
  }
  return needs;
}

}  // namespace sinew::parallel
