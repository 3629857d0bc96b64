#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/placed/growing_graph.hpp>
#include <sinew/parallel/step_graph/placed/labels.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>

namespace sinew::parallel {
namespace {

std::size_t at(TensorId t) noexcept { return static_cast<std::size_t>(t); }

/// Where the gradient of a tensor is.
Placement gradient_placement(const Placement& value) {
  return std::holds_alternative<Shard>(value) ? value : Placement(Replicate{});
}

class Backward {
 public:
  Backward(StepGraph forward, const Factorisation& mesh)
      : mesh_(mesh),
        graph_(std::move(forward)),
        passes_on_(graph_.tensors.size(), false),
        gradients_(graph_.tensors.size(), -1) {}

  StepGraph run() && {
    const std::vector<Node> forward = graph_.nodes;
    for (const Node& node : forward) {
      if (node.kind == NodeKind::AllGather)
        passes_on_[at(node.tensors.front())] = readers_of(node.tensors.front()) == 1;
    }
    for (const Node& node : forward) {
      if (node.kind == NodeKind::Gate) give(node);
    }
    for (auto node = forward.rbegin(); node != forward.rend(); ++node) {
      if (node->kind == NodeKind::Gate || node->kind == NodeKind::Signal) continue;
      if (std::ranges::any_of(node->tensors, [&](TensorId t) { return gradients_[at(t)] >= 0; })) go_back(*node);
    }
    for (const Node& node : forward) {
      if (node.kind == NodeKind::Signal) read(node);
    }
    return std::move(graph_);
  }

 private:
  const StepTensor& tensor(TensorId t) const { return graph_.tensors[at(t)]; }
  StepTensor gradient_of(TensorId t, const std::string& name) const {
    return {.name = name, .dtype = tensor(t).dtype, .shape = tensor(t).shape};
  }

  std::int64_t readers_of(TensorId t) const {
    std::int64_t readers = 0;
    for (const Node& node : graph_.nodes)
      readers += std::ranges::count(node.operands, t) +
                 (node.kind == NodeKind::Gate ? std::ranges::count(node.tensors, t) : 0);
    return readers;
  }

  void give(const Node& gate) {
    Node signal{.kind = NodeKind::Signal, .name = "gradient of " + gate.name};
    for (const TensorId t : gate.tensors) {
      StepTensor gradient = gradient_of(t, "gradient of " + tensor(t).name);
      for (const auto& [axis, placement] : tensor(t).placements.entries())
        gradient.placements = gradient.placements.with(axis, gradient_placement(placement));
      signal.tensors.push_back(add_tensor(graph_, std::move(gradient)));
    }
    graph_.nodes.push_back(signal);
    for (std::size_t i = 0; i < gate.tensors.size(); ++i) add(gate.tensors[i], signal.tensors[i]);
  }

  void read(const Node& signal) {
    std::vector<TensorId> gradients;
    for (const TensorId t : signal.tensors) {
      if (gradients_[at(t)] >= 0) gradients.push_back(gradients_[at(t)]);
    }
    if (!gradients.empty())
      graph_.nodes.push_back({.kind = NodeKind::Gate, .name = "gradient of " + signal.name, .tensors = gradients});
  }

  /// Adds to the gradient of tensor `to` the gradient that comes from one of its readers. `gradient` may have any
  /// placement.
  void add(TensorId to, TensorId gradient) {
    for (const Axis& axis : mesh_.axes()) {
      if (passes_on_[at(to)] && std::holds_alternative<Partial>(tensor(gradient).placements.along(axis.name))) continue;
      gradient =
          add_move(graph_, mesh_, gradient, axis.name, gradient_placement(tensor(to).placements.along(axis.name)));
    }
    TensorId& sum = gradients_[at(to)];
    if (sum < 0) {
      sum = gradient;
      return;
    }
    std::string labels;
    for (std::size_t d = 0; d < tensor(to).shape.size(); ++d) labels += static_cast<char>('a' + d);
    const std::string name = fmt::format("gradient of {} sum {}", tensor(to).name, graph_.nodes.size());
    sum = add_compute(
        graph_, mesh_,
        {.name = name, .operands = {sum, gradient}, .rule = {.labels = fmt::format("{0}+{0}->{0}", labels)}},
        gradient_of(to, name));
  }

  void go_back(const Node& node) {
    if (node.tensors.size() != 1)
      throw Error(Code::InvalidArgument, fmt::format("backward pass: compute {} makes {} tensors, expected one",
                                                     node.name, node.tensors.size()));
    const TensorId gradient = gradients_[at(node.tensors.front())];
    if (node.kind != NodeKind::Compute) return go_back_along(node, gradient);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      Node back = backward_of(node, i, gradient);
      add(node.operands[i], back.rule.labels.empty()
                                ? gradient
                                : add_compute(graph_, mesh_, back, gradient_of(node.operands[i], back.name)));
    }
  }

  void go_back_along(const Node& exchange, TensorId gradient) {
    const TensorId from = exchange.operands.front();
    const auto* partial = std::get_if<Partial>(&tensor(from).placements.along(exchange.axes));
    if (partial != nullptr && partial->op != ReduceOp::Sum)
      throw Error(Code::InvalidArgument, fmt::format("backward pass: '{}' is {} along {}, expected Partial(sum)",
                                                     tensor(from).name, to_string(*partial), exchange.axes));
    add(from, gradient);
  }

  /// Without labels: it is the gradient itself.
  static Node backward_of(const Node& node, std::size_t operand, TensorId gradient) {
    const Labels labels = split_labels(node.rule.labels);
    const std::string &result = labels.results.front(), &mine = labels.operands[operand];
    Node back{.name = fmt::format("{} backward {}", node.name, operand), .operands = {gradient}, .rule = node.rule};
    back.rule.linear = {0};  // and in what the forward pass is linear in, too
    if (labels.adds) {
      back.rule.labels = mine == result ? "" : fmt::format("{}->{}", result, mine);
      return back;
    }
    std::string operands = result;
    const bool is_product = node.rule.function.empty();
    for (std::size_t i = 0; i < labels.operands.size(); ++i) {
      const bool is_linear = is_product || std::ranges::count(node.rule.linear, i) > 0;
      if (is_linear && i == operand) continue;
      operands += "," + labels.operands[i];
      back.operands.push_back(node.operands[i]);
      if (is_linear) back.rule.linear.push_back(back.operands.size() - 1);
    }
    back.rule.labels = fmt::format("{}->{}", operands, mine);
    if (!is_product) back.rule.function = fmt::format("{} backward {}", node.rule.function, operand);
    return back;
  }

  const Factorisation& mesh_;
  StepGraph graph_;
  std::vector<bool> passes_on_;      // by tensor of the forward pass: its gradient goes on as a sum that is missing
  std::vector<TensorId> gradients_;  // likewise; -1: none yet
};

}  // namespace

StepGraph with_backward(StepGraph forward, const Factorisation& mesh) {
  return Backward(std::move(forward), mesh).run();
}

}  // namespace sinew::parallel
