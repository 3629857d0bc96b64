#include <algorithm>

#include <fmt/format.h>

#include <sinew/parallel/step_graph/passes/rewired.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

std::size_t at(TensorId t) noexcept { return static_cast<std::size_t>(t); }

bool moves_along(const Node& node, const Axis& axis) {
  return (is_exchange(node.kind) || node.kind == NodeKind::Split) && node.axes == axis.name;
}

/// By tensor, its root: the tensor from which exchanges and splits along the axis make this one.
std::vector<TensorId> roots_along(const StepGraph& graph, const Axis& axis) {
  std::vector<TensorId> roots(graph.tensors.size());
  for (std::size_t t = 0; t < roots.size(); ++t) roots[t] = static_cast<TensorId>(t);
  for (const Node& node : graph.nodes) {
    if (moves_along(node, axis)) roots[at(node.tensors.front())] = roots[at(node.operands.front())];
  }
  return roots;
}

Placement placement_of(const StepTensor& tensor, const Axis& axis) {
  return plain(tensor.placements.along(axis.name), tensor.shape, axis.size);
}

class Rewiring {
 public:
  Rewiring(const StepGraph& graph, const Axis& axis, const std::vector<PlacedValue>& values,
           const std::vector<Strategy>& strategies, const std::vector<Supply>& supplies)
      : graph_(graph),
        axis_(axis),
        strategies_(strategies),
        roots_(roots_along(graph, axis)),
        moves_(graph.tensors.size()),
        made_(graph.tensors.size()),
        known_(graph.tensors.size()) {
    for (std::size_t v = 0; v < values.size(); ++v) moves_[at(values[v].root)] = &supplies[v].moves;
    result_.tensors = graph.tensors;
    prefer_tensors_of_gates();
  }

  StepGraph run() && {
    std::size_t compute = 0;
    for (Node node : graph_.nodes) {
      if (moves_along(node, axis_)) continue;
      if (node.kind == NodeKind::Compute) {
        rewire(node, strategies_[compute++]);
      } else if (node.kind == NodeKind::Gate) {
        for (TensorId& t : node.tensors) t = needed(t);
      } else {
        for (TensorId& t : node.operands) t = needed(t);
        for (const TensorId t : node.tensors) made_[at(t)].push_back({placement_of(graph_.tensors[at(t)], axis_), t});
      }
      result_.nodes.push_back(std::move(node));
    }
    std::int32_t next = 0;
    for (Node& node : result_.nodes) {
      if (is_exchange(node.kind)) node.exchange = next++;
    }
    return std::move(result_);
  }

 private:
  struct Made {
    Placement placement;
    TensorId tensor;
  };

  /// Collects the tensors of the graph, so that the new graph uses their numbers again. Tensors that gates read come
  /// first, because the engine knows them.
  void prefer_tensors_of_gates() {
    for (const bool of_gates : {true, false}) {
      for (const Node& node : graph_.nodes) {
        if ((node.kind == NodeKind::Gate) != of_gates) continue;
        for (const TensorId t : node.tensors) known_[at(roots_[at(t)])].push_back(t);
      }
    }
  }

  void rewire(Node& node, const Strategy& strategy) {
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      node.operands[i] = provide(roots_[at(node.operands[i])], strategy.all[i]);
    for (std::size_t i = 0; i < node.tensors.size(); ++i) {
      const TensorId root = node.tensors[i];
      const Placement& placement = strategy.all[node.operands.size() + i];
      node.tensors[i] = tensor_for(root, placement);
      made_[at(root)].push_back({placement, node.tensors[i]});
    }
  }

  TensorId needed(TensorId t) { return provide(roots_[at(t)], placement_of(graph_.tensors[at(t)], axis_)); }

  /// The tensor with that root in that placement. If it does not exist, adds the moves that make it.
  TensorId provide(TensorId root, const Placement& placement) {
    for (const Made& made : made_[at(root)]) {
      if (made.placement == placement) return made.tensor;
    }
    const auto move = std::ranges::find(*moves_[at(root)], placement, &SupplyStep::to);
    const TensorId from = provide(root, move->from), to = tensor_for(root, placement);
    result_.nodes.push_back(move_of(*kind_of_move(move->from, move->to), axis_.name, from, to));
    made_[at(root)].push_back({placement, to});
    return to;
  }

  TensorId tensor_for(TensorId root, const Placement& placement) {
    const auto is_it = [&](TensorId t) { return placement_of(graph_.tensors[at(t)], axis_) == placement; };
    const auto found = std::ranges::find_if(known_[at(root)], is_it);
    if (found != known_[at(root)].end()) return *found;
    StepTensor tensor = graph_.tensors[at(root)];
    tensor.name += fmt::format(" {} along {}", to_string(placement), axis_.name);
    tensor.placements = tensor.placements.with(axis_.name, placement);
    result_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(result_.tensors.size() - 1);
  }

  const StepGraph& graph_;
  const Axis& axis_;
  const std::vector<Strategy>& strategies_;
  std::vector<TensorId> roots_;
  std::vector<const std::vector<SupplyStep>*> moves_;  // by root
  std::vector<std::vector<Made>> made_;                // by root
  std::vector<std::vector<TensorId>> known_;           // by root: its tensors in the given graph
  StepGraph result_;
};

}  // namespace

std::vector<PlacedValue> values_along(const StepGraph& graph, const Axis& axis) {
  const std::vector<TensorId> roots = roots_along(graph, axis);
  std::vector<PlacedValue> values;
  std::vector<std::size_t> value_of(graph.tensors.size());
  std::size_t compute = 0;
  for (const Node& node : graph.nodes) {
    const bool computes = node.kind == NodeKind::Compute;
    if (moves_along(node, axis)) {
      if (is_exchange(node.kind)) values[value_of[at(roots[at(node.tensors.front())])]].travels = true;
      continue;
    }
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      PlacedValue& value = values[value_of[at(roots[at(node.operands[i])])]];
      if (computes) {
        value.readers.push_back({compute, i});
      } else {
        value.needed.push_back(placement_of(graph.tensors[at(node.operands[i])], axis));
      }
    }
    for (std::size_t i = 0; i < node.tensors.size(); ++i) {
      const TensorId t = node.tensors[i];
      const Placement placement = placement_of(graph.tensors[at(t)], axis);
      if (node.kind == NodeKind::Gate) {
        values[value_of[at(roots[at(t)])]].needed.push_back(placement);
        continue;
      }
      value_of[at(t)] = values.size();
      values.push_back({.root = t, .made = placement, .travels = node.kind != NodeKind::Signal});
      if (computes) values.back().maker = PlacedSlot{compute, node.operands.size() + i};
    }
    compute += computes ? 1 : 0;
  }
  return values;
}

StepGraph rewired(const StepGraph& graph, const Axis& axis, const std::vector<PlacedValue>& values,
                  const std::vector<Strategy>& strategies, const std::vector<Supply>& supplies) {
  return Rewiring(graph, axis, values, strategies, supplies).run();
}

}  // namespace sinew::parallel
