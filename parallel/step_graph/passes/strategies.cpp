#include <algorithm>

#include <sinew/parallel/step_graph/passes/strategies.hpp>

namespace sinew::parallel {
namespace {

std::vector<TensorId> tensors_of(const Node& node) {
  std::vector<TensorId> all = node.operands;
  all.insert(all.end(), node.tensors.begin(), node.tensors.end());
  return all;
}

class Strategies {
 public:
  Strategies(const StepGraph& graph, const Node& node, const Axis& axis)
      : graph_(graph), node_(node), axis_(axis), rule_(graph, node) {
    std::vector<Placement> now;
    for (const TensorId t : tensors_of(node)) {
      const StepTensor& tensor = graph.tensors[static_cast<std::size_t>(t)];
      now.push_back(plain(tensor.placements.along(axis.name), tensor.shape, axis.size));
    }
    add(std::move(now), true);
  }

  std::vector<Strategy> run(const KnownCuts& known) && {
    derive(std::vector<Placement>(rule_.operands(), Replicate{}));
    for (const auto& [label, extent] : rule_.extents()) {
      const auto cuts = known.find(extent);
      if (cuts == known.end() || is_cut_by_others(label)) continue;
      for (const auto& offsets : cuts->second) cut({label, offsets});
    }
    derive(std::vector<Placement>(rule_.operands(), Partial{}));
    for (std::size_t i = 0; i < rule_.operands(); ++i) {
      std::vector<Placement> one(rule_.operands(), Replicate{});
      one[i] = Partial{};
      derive(std::move(one));
    }
    return std::move(found_);
  }

 private:
  void cut(const LabelCut& cut) {
    std::vector<Placement> all;
    for (std::size_t t = 0; t < rule_.tensors(); ++t) {
      const std::optional<Placement> placement = rule_.placed(t, cut, axis_.size);
      if (!placement) return;
      all.push_back(*placement);
    }
    const auto is_whole = [](const Placement& p) { return std::holds_alternative<Replicate>(p); };
    const auto first = all.begin(), results = first + static_cast<std::ptrdiff_t>(rule_.operands());
    if (std::all_of(first, results, is_whole)) {
      add(std::move(all), false);
    } else {
      derive({first, results});
    }
  }

  void derive(std::vector<Placement> operands) {
    const BoundRule::Outcome outcome = rule_.derive(operands, axis_);
    if (!outcome.fault.empty()) return;
    operands.insert(operands.end(), outcome.results.begin(), outcome.results.end());
    add(std::move(operands), false);
  }

  void add(std::vector<Placement> all, bool now) {
    const auto any = [&]<class Kind>(Kind) {
      return std::ranges::any_of(all, [](const Placement& p) { return std::holds_alternative<Kind>(p); });
    };
    const bool shares_work = any(Shard{}) || (rule_.adds() && any(Partial{}));
    if (now) cuts_ = any(Shard{});
    if (!now && ((cuts_ && !shares_work) || !rule_.fault_of(all, axis_).empty())) return;
    if (std::ranges::find(found_, all, &Strategy::all) == found_.end()) found_.push_back({std::move(all)});
  }

  /// Returns whether another axis cuts a dimension whose outer label is `label`.
  bool is_cut_by_others(char label) const {
    const std::vector<TensorId> tensors = tensors_of(node_);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (const auto& [axis, placement] : graph_.tensors[static_cast<std::size_t>(tensors[t])].placements.entries()) {
        const auto* shard = std::get_if<Shard>(&placement);
        if (shard != nullptr && axis != axis_.name && rule_.outer_label(t, shard->dim) == label) return true;
      }
    }
    return false;
  }

  const StepGraph& graph_;
  const Node& node_;
  const Axis& axis_;
  BoundRule rule_;
  bool cuts_ = false;  // whether the present strategy cuts a tensor
  std::vector<Strategy> found_;
};

}  // namespace

KnownCuts known_cuts(const StepGraph& graph, const Axis& axis) {
  KnownCuts known;
  for (const Node& node : graph.nodes) {
    if (node.kind != NodeKind::Compute) continue;
    const BoundRule rule(graph, node);
    for (const auto& [label, extent] : rule.extents()) {
      auto& cuts = known[extent];
      if (cuts.empty()) cuts.insert(even_offsets(axis.size, extent));
    }
    const std::vector<TensorId> tensors = tensors_of(node);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const StepTensor& tensor = graph.tensors[static_cast<std::size_t>(tensors[t])];
      const auto* shard = std::get_if<Shard>(&tensor.placements.along(axis.name));
      if (shard == nullptr) continue;
      if (!shard->offsets.empty()) known[tensor.shape[static_cast<std::size_t>(shard->dim)]].insert(shard->offsets);
      const std::optional<LabelCut> cut = rule.cut_of(t, *shard, axis.size);
      if (cut) known[rule.extents().at(cut->label)].insert(cut->offsets);
    }
  }
  return known;
}

std::vector<Strategy> strategies_of(const StepGraph& graph, const Node& compute, const Axis& axis,
                                    const KnownCuts& known) {
  return Strategies(graph, compute, axis).run(known);
}

}  // namespace sinew::parallel
