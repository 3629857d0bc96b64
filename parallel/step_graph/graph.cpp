#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/config.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {
namespace {

std::string size_text(const StepGraph& graph, const Node& node) {
  return format_bytes(static_cast<std::uint64_t>(graph.bytes(node)));
}

std::string names_of(const StepGraph& graph, const std::vector<TensorId>& tensors) {
  std::vector<std::string_view> names;
  for (const TensorId t : tensors) names.push_back(graph.tensors[static_cast<std::size_t>(t)].name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// The tensors of a node as text. With operands: "x -> y".
std::string way_of(const StepGraph& graph, const Node& node) {
  const std::string tensors = names_of(graph, node.tensors);
  return node.operands.empty() ? tensors : fmt::format("{} -> {}", names_of(graph, node.operands), tensors);
}

std::string line_of(const StepGraph& graph, const Node& node) {
  const std::string tensors = way_of(graph, node);
  switch (node.kind) {
    case NodeKind::Gate: return fmt::format("gate {}: reads {}", node.name, tensors);
    case NodeKind::Signal:
      return fmt::format("signal {}{}: {}", node.name, node.times > 1 ? fmt::format(" ({} times)", node.times) : "",
                         tensors);
    case NodeKind::AllGather:
    case NodeKind::ReduceScatter:
    case NodeKind::AllReduce:
    case NodeKind::AllToAll:
      return fmt::format("{} {} over {}: {} ({})", name_of(node.kind), node.exchange, node.axes, tensors,
                         size_text(graph, node));
    case NodeKind::Send:
    case NodeKind::Receive:
      return fmt::format("{} {} {} {}: {} ({})", name_of(node.kind), node.exchange,
                         node.kind == NodeKind::Send ? "to" : "from", node.peer, tensors, size_text(graph, node));
    case NodeKind::Wait: return fmt::format("wait {}", node.exchange);
    case NodeKind::Free:
      return fmt::format("free {}{} ({})",
                         node.axes.empty() ? "" : fmt::format("all but a part over {} of ", node.axes), tensors,
                         size_text(graph, node));
    case NodeKind::Split: return fmt::format("split over {}: {}", node.axes, tensors);
    case NodeKind::Compute: return fmt::format("compute {} ({}): {}", node.name, node.rule.labels, tensors);
  }
  return {};
}

/// The earlier nodes of a tensor for which later nodes wait.
struct Last {
  std::vector<std::int32_t> signals;  // the signals after `other`
  std::int32_t other = -1;            // the last node that is neither gate nor signal
};

}  // namespace

std::string_view name_of(NodeKind kind) noexcept {
  constexpr std::array<std::string_view, 12> kNames = {"gate",       "signal",     "all_gather", "reduce_scatter",
                                                       "all_reduce", "all_to_all", "send",       "receive",
                                                       "wait",       "free",       "split",      "compute"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t StepGraph::bytes(const Node& node) const noexcept {
  std::int64_t sum = 0;
  for (const TensorId t : node.tensors) sum += tensors[static_cast<std::size_t>(t)].bytes();
  return sum;
}

std::int32_t StepGraph::next_exchange() const noexcept {
  std::int32_t next = 0;
  for (const Node& node : nodes) next = std::max(next, node.exchange + 1);
  return next;
}

std::string StepGraph::to_string() const {
  std::string text;
  for (const Node& node : nodes) text += line_of(*this, node) + "\n";
  return text;
}

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
