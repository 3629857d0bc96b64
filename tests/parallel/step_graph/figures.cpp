#include "figures.hpp"

#include <algorithm>

#include <sinew/parallel/step_graph/held_tensors.hpp>

namespace sinew::parallel::test {
namespace {

/// The number of exchanges without a signal between their start and the first gate that needs them, or the end.
std::int32_t exposed_in(const StepGraph& graph) {
  std::int32_t exposed = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& exchange = graph.nodes[i];
    if (!is_exchange(exchange.kind)) continue;
    bool hidden = false;
    for (std::size_t k = i + 1; k < graph.nodes.size() && !hidden; ++k) {
      const Node& node = graph.nodes[k];
      hidden = node.kind == NodeKind::Signal;
      if (node.kind != NodeKind::Gate) continue;
      if (std::ranges::find_first_of(node.tensors, exchange.tensors) != node.tensors.end()) break;
    }
    exposed += hidden ? 0 : 1;
  }
  return exposed;
}

}  // namespace

StepFigures figures_of(const StepGraph& graph) {
  StepFigures figures;
  figures.exposed = exposed_in(graph);
  HeldTensors held(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_exchange(node.kind)) {
      held.end(i);
      continue;
    }
    ++figures.exchanges;
    figures.bytes += graph.bytes(node);
    held.start(node);
    figures.bytes_in_flight = std::max(figures.bytes_in_flight, held.bytes());
  }
  return figures;
}

}  // namespace sinew::parallel::test
