#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/optimizer/saved.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {

StepGraph gathered_again(StepGraph graph, const Factorisation& mesh, const std::string& backward,
                         std::int64_t saved_bytes, const ExchangePrices& prices, std::vector<ExchangeEntry>& entries) {
  const auto begin = std::ranges::find_if(
      graph.nodes, [&](const Node& n) { return n.kind == NodeKind::Signal && n.name == backward; });
  if (begin == graph.nodes.end())
    throw Error(
        Code::InvalidArgument,
        fmt::format("step graph: the backward pass begins with signal '{}', expected a signal of the graph", backward));
  const auto middle = static_cast<std::size_t>(begin - graph.nodes.begin());
  std::vector<std::size_t> first_read(graph.tensors.size(), graph.nodes.size());  // in the backward pass
  for (std::size_t i = graph.nodes.size(); i-- > middle;) {
    const Node& node = graph.nodes[i];
    for (const TensorId t : node.operands) first_read[at(t)] = i;
    if (node.kind == NodeKind::Gate) {
      for (const TensorId t : node.tensors) first_read[at(t)] = i;
    }
  }
  std::map<std::size_t, std::vector<Node>> added;  // by the node before which they are gathered
  std::map<TensorId, TensorId> again;
  std::int32_t next = graph.next_exchange();
  for (std::size_t i = middle; i-- > 0;) {
    const Node node = graph.nodes[i];
    if (node.kind != NodeKind::AllGather || first_read[at(node.tensors.front())] == graph.nodes.size()) continue;
    const TensorId t = node.tensors.front();
    const std::int64_t bytes = graph.tensors[at(t)].bytes();
    if (bytes <= saved_bytes) {
      saved_bytes -= bytes;
      continue;
    }
    StepTensor tensor = graph.tensors[at(t)];
    tensor.name += " again";
    graph.tensors.push_back(std::move(tensor));
    Node gather = node;
    gather.tensors = {static_cast<TensorId>(graph.tensors.size() - 1)};
    gather.exchange = next++;
    again.emplace(t, gather.tensors.front());
    const StepTensor& from = graph.tensors[at(node.operands.front())];
    entries.push_back({.change = ExchangeChange::Added,
                       .kind = NodeKind::AllGather,
                       .axes = node.axes,
                       .tensors = gather.tensors,
                       .why = "the backward pass reads it, and there is no room to keep it from the forward pass",
                       .bytes = sent_by_move(from, node.axes, from.placements.along(node.axes), Replicate{}, mesh),
                       .seconds = prices.seconds ? -prices.seconds(NodeKind::AllGather, node.axes, bytes) : 0});
    added[first_read[at(t)]].push_back(std::move(gather));
  }
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (Node& gather : added[i]) nodes.push_back(std::move(gather));
    Node& node = graph.nodes[i];
    const auto replace = [&](std::vector<TensorId>& tensors) {
      for (TensorId& t : tensors) {
        const auto found = again.find(t);
        if (found != again.end()) t = found->second;
      }
    };
    if (i >= middle) replace(node.operands);
    if (i >= middle && node.kind == NodeKind::Gate) replace(node.tensors);
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

StepGraph with_frees(StepGraph graph) {
  std::vector<bool> is_made(graph.tensors.size(), false), is_operand = is_made;
  std::vector<std::optional<std::size_t>> last_gate(graph.tensors.size());
  std::map<std::string_view, std::size_t> signals;  // by name: the last one
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const TensorId t : node.operands) is_operand[at(t)] = true;  // no node names it when that exchange ends
    if (node.kind == NodeKind::Signal) signals[node.name] = i;
    for (const TensorId t : node.tensors) {
      if (is_exchange(node.kind) && !node.operands.empty()) is_made[at(t)] = true;
      if (node.kind == NodeKind::Gate) last_gate[at(t)] = i;
    }
  }
  std::map<std::size_t, std::vector<TensorId>> freed;  // by the signal after which they are freed
  for (std::size_t t = 0; t < is_made.size(); ++t) {
    if (!is_made[t] || is_operand[t] || !last_gate[t]) continue;
    const auto signal = signals.find(graph.nodes[*last_gate[t]].name);
    if (signal != signals.end() && signal->second > *last_gate[t])
      freed[signal->second].push_back(static_cast<TensorId>(t));
  }
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    nodes.push_back(graph.nodes[i]);
    const auto found = freed.find(i);
    if (found == freed.end()) continue;
    // A Free waits for the nodes that name its tensors. The signal says that the compute does not read them any more.
    nodes.back().tensors.insert(nodes.back().tensors.end(), found->second.begin(), found->second.end());
    for (const TensorId t : found->second)
      nodes.push_back({.kind = NodeKind::Free, .name = graph.tensors[at(t)].name, .tensors = {t}});
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace sinew::parallel
