#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>

namespace sinew::parallel {

std::string StepTraffic::to_string() const {
  std::string text;
  const auto add = [&](std::int32_t count, NodeKind kind) {
    if (count > 0)
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", count, name_of(kind), count > 1 ? "s" : "");
  };
  add(all_gathers, NodeKind::AllGather);
  add(reduce_scatters, NodeKind::ReduceScatter);
  add(all_reduces, NodeKind::AllReduce);
  add(all_to_alls, NodeKind::AllToAll);
  return fmt::format("{}: {}", text.empty() ? "no exchange" : text, format_bytes(static_cast<std::uint64_t>(bytes)));
}

StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh, std::size_t first, std::size_t last) {
  StepTraffic traffic;
  for (std::size_t i = first; i < last; ++i) {
    const Node& node = graph.nodes[i];
    if (!is_exchange(node.kind) || node.operands.empty()) continue;
    traffic.all_gathers += node.kind == NodeKind::AllGather ? 1 : 0;
    traffic.reduce_scatters += node.kind == NodeKind::ReduceScatter ? 1 : 0;
    traffic.all_reduces += node.kind == NodeKind::AllReduce ? 1 : 0;
    traffic.all_to_alls += node.kind == NodeKind::AllToAll ? 1 : 0;
    const StepTensor &from = graph.tensors[static_cast<std::size_t>(node.operands.front())],
                     &to = graph.tensors[static_cast<std::size_t>(node.tensors.front())];
    traffic.bytes +=
        sent_by_move(from, node.axes, from.placements.along(node.axes), to.placements.along(node.axes), mesh);
  }
  return traffic;
}

StepTraffic traffic_of(const StepGraph& graph, const Factorisation& mesh) {
  return traffic_of(graph, mesh, 0, graph.nodes.size());
}

}  // namespace sinew::parallel
