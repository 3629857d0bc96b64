#include <algorithm>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/passes/passes.hpp>
#include <sinew/parallel/step_graph/passes/rewired.hpp>
#include <sinew/parallel/step_graph/passes/strategies.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>

namespace sinew::parallel {
namespace {

/// Chooses along one axis how each compute takes its operands, so that exchanges of all tensors cost the least.
class Chooser {
 public:
  Chooser(const StepGraph& graph, const Axis& axis, const Factorisation& mesh)
      : graph_(graph), axis_(axis), mesh_(mesh), values_(values_along(graph, axis)) {
    const KnownCuts known = known_cuts(graph, axis);
    for (const Node& node : graph.nodes) {
      if (node.kind == NodeKind::Compute) strategies_.push_back(strategies_of(graph, node, axis, known));
    }
    for (const PlacedValue& value : values_) limit(choices_of(value));
  }

  StepGraph run() {
    std::vector<Factor> factors;
    std::vector<std::size_t> counts;
    for (std::size_t c = 0; c < strategies_.size(); ++c) {
      counts.push_back(strategies_[c].size());
      Factor change{{c}, std::vector<Cost>(strategies_[c].size(), Cost{.changes = 1})};
      change.costs.front() = {};
      factors.push_back(std::move(change));
    }
    for (const PlacedValue& value : values_) factors.push_back(factor_of(value));
    chosen_ = least_cost(counts, std::move(factors));
    std::vector<Strategy> strategies;
    for (std::size_t c = 0; c < strategies_.size(); ++c) strategies.push_back(strategies_[c][chosen_[c]]);
    std::vector<Supply> supplies;
    for (const PlacedValue& value : values_) supplies.push_back(supply_of(value));
    return rewired(graph_, axis_, values_, strategies, supplies);
  }

 private:
  /// The computes on whose strategies the exchanges of a value depend, ascending.
  static std::vector<std::size_t> choices_of(const PlacedValue& value) {
    std::vector<std::size_t> choices;
    for (const PlacedSlot& reader : value.readers) choices.push_back(reader.compute);
    if (value.maker) choices.push_back(value.maker->compute);
    std::ranges::sort(choices);
    choices.erase(std::ranges::unique(choices).begin(), choices.end());
    return choices;
  }

  /// Limits the table of a value to kLargestTable entries: the last computes keep their present strategies.
  void limit(const std::vector<std::size_t>& choices) {
    std::size_t entries = 1;
    for (const std::size_t c : choices) {
      if (entries * strategies_[c].size() > kLargestTable) strategies_[c].resize(1);
      entries *= strategies_[c].size();
    }
  }

  const Placement& at(const PlacedSlot& slot) const {
    return strategies_[slot.compute][chosen_[slot.compute]].all[slot.place];
  }

  Supply supply_of(const PlacedValue& value) const {
    std::vector<Placement> needed = value.needed;
    for (const PlacedSlot& reader : value.readers) needed.push_back(at(reader));
    Supply way = supply(graph_.tensors[static_cast<std::size_t>(value.root)], axis_, mesh_,
                        value.maker ? at(*value.maker) : value.made, needed);
    if (!value.travels && way.cost.exchanges > 0) ++way.cost.impossible;
    return way;
  }

  Factor factor_of(const PlacedValue& value) {
    Factor factor{choices_of(value), {}};
    chosen_.assign(strategies_.size(), 0);
    const auto advance = [&] {
      for (auto c = factor.choices.rbegin(); c != factor.choices.rend(); ++c) {
        if (++chosen_[*c] < strategies_[*c].size()) return true;
        chosen_[*c] = 0;
      }
      return false;
    };
    do factor.costs.push_back(supply_of(value).cost);
    while (advance());
    return factor;
  }

  const StepGraph& graph_;
  const Axis& axis_;
  const Factorisation& mesh_;
  std::vector<PlacedValue> values_;
  std::vector<std::vector<Strategy>> strategies_;  // by compute
  std::vector<std::size_t> chosen_;
};

Cost cost_of(const StepGraph& graph, const Factorisation& mesh) {
  const StepTraffic traffic = traffic_of(graph, mesh);
  return {.bytes = traffic.bytes,
          .exchanges = traffic.exchanges(),
          .splits = static_cast<std::int32_t>(std::ranges::count(graph.nodes, NodeKind::Split, &Node::kind))};
}

}  // namespace

StepGraph remove_redundant_exchanges(StepGraph graph, const Factorisation& mesh) {
  const std::string wrong = check_placements(graph, mesh);
  if (!wrong.empty()) throw Error(Code::InvalidArgument, "step graph: " + wrong);
  for (bool again = true; again;) {
    again = false;
    for (const Axis& axis : mesh.axes()) {
      if (axis.size == 1) continue;
      StepGraph better = Chooser(graph, axis, mesh).run();
      if (cost_of(better, mesh) >= cost_of(graph, mesh)) continue;
      if (!check_placements(better, mesh).empty() || !same_values(graph, better, mesh).empty()) continue;
      graph = std::move(better);
      again = true;
    }
  }
  return graph;
}

}  // namespace sinew::parallel
