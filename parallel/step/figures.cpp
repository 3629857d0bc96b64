#include <algorithm>

#include <sinew/parallel/step/graph.hpp>

namespace sinew::parallel {
namespace {

/// Whether anything frees one of the tensors of a wait before they travel again.
bool freed_later(const StepGraph& graph, std::size_t wait) {
  const auto& tensors = graph.nodes[wait].tensors;
  for (std::size_t i = wait + 1; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::Free && !is_exchange(node.kind)) continue;
    if (std::ranges::find_first_of(node.tensors, tensors) != node.tensors.end()) return node.kind == NodeKind::Free;
  }
  return false;
}

/// By exchange: whether a signal comes between its start and the first gate, or the end, that needs it.
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
  std::vector<bool> held(graph.tensors.size(), false);
  std::int64_t now = 0;
  const auto hold = [&](TensorId t, bool yes) {
    const auto i = static_cast<std::size_t>(t);
    if (held[i] == yes) return;
    held[i] = yes;
    now += yes ? graph.tensors[i].bytes() : -graph.tensors[i].bytes();
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_exchange(node.kind)) {
      ++figures.exchanges;
      figures.bytes += graph.bytes(node);
      for (const TensorId t : node.tensors) hold(t, true);
      figures.bytes_in_flight = std::max(figures.bytes_in_flight, now);
    } else if (node.kind == NodeKind::Wait) {
      if (!freed_later(graph, i)) {
        for (const TensorId t : node.tensors) hold(t, false);
      }
    } else if (node.kind == NodeKind::Free) {
      for (const TensorId t : node.tensors) hold(t, false);
    }
  }
  return figures;
}

}  // namespace sinew::parallel
