#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/step_graph/optimizer/placed_changes.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

bool moves_value(const Node& node) noexcept {
  return (is_exchange(node.kind) || node.kind == NodeKind::Split) && !node.operands.empty();
}

/// An exchange of a tensor as a whole, whichever tensors of the graph hold it. It is equal in both graphs.
struct ValueMove {
  std::string value;  // the signal or compute that makes the tensor
  std::string axes;
  NodeKind kind = NodeKind::AllGather;
  std::string from, to;
  auto operator<=>(const ValueMove&) const = default;
};

struct MovedValue {
  const Node* node = nullptr;
  bool is_read = false;
};
using ValueMoves = std::map<ValueMove, std::vector<MovedValue>>;

std::vector<bool> tensors_read(const StepGraph& graph) {
  std::vector<bool> read(graph.tensors.size(), false);
  for (const Node& node : graph.nodes) {
    for (const TensorId t : node.operands) read[at(t)] = true;
    if (node.kind != NodeKind::Gate) continue;
    for (const TensorId t : node.tensors) read[at(t)] = true;
  }
  return read;
}

ValueMoves moves_of(const StepGraph& graph) {
  const std::vector<bool> read = tensors_read(graph);
  std::vector<std::string> value(graph.tensors.size());
  ValueMoves moves;
  for (const Node& node : graph.nodes) {
    if (node.kind == NodeKind::Gate) continue;
    if (!moves_value(node)) {
      for (std::size_t i = 0; i < node.tensors.size(); ++i)
        value[at(node.tensors[i])] = fmt::format("{} {} {}", name_of(node.kind), node.name, i);
      continue;
    }
    const TensorId from = node.operands.front(), to = node.tensors.front();
    value[at(to)] = value[at(from)];
    if (node.kind == NodeKind::Split) continue;
    const auto along = [&](TensorId t) { return to_string(graph.tensors[at(t)].placements.along(node.axes)); };
    moves[{value[at(to)], node.axes, node.kind, along(from), along(to)}].push_back({&node, read[at(to)]});
  }
  return moves;
}

class PlacedComparison {
 public:
  PlacedComparison(const StepGraph& before, const StepGraph& after, const Factorisation& mesh,
                   const ExchangePrices& prices)
      : before_(before), after_(after), mesh_(mesh), prices_(prices), was_(moves_of(before)), is_(moves_of(after)) {}

  std::vector<ExchangeEntry> run() {
    for (const auto& [move, made] : was_) {
      const std::size_t left = count(is_, move);
      for (std::size_t i = left; i < made.size(); ++i) removed(move, made[i], left);
    }
    for (const auto& [move, made] : is_) {
      for (std::size_t i = count(was_, move); i < made.size(); ++i)
        add(ExchangeChange::Added, after_, *made[i].node, "it takes the place of removed exchanges");
    }
    return std::move(entries_);
  }

 private:
  static std::size_t count(const ValueMoves& moves, const ValueMove& move) {
    const auto found = moves.find(move);
    return found == moves.end() ? 0 : found->second.size();
  }

  void removed(const ValueMove& move, const MovedValue& made, std::size_t left) {
    add(ExchangeChange::Removed, before_, *made.node, reason(move, made, left));
  }

  std::string_view reason(const ValueMove& move, const MovedValue& made, std::size_t left) const {
    if (!made.is_read) return "no node reads the result";
    if (left > 0) return "the same exchange of the same tensor is left";
    const bool of_sum = move.kind == NodeKind::AllReduce || move.kind == NodeKind::ReduceScatter;
    const bool is_sent = std::ranges::any_of(
        is_, [&](const auto& other) { return other.first.value == move.value && other.first.axes == move.axes; });
    if (is_sent) return "another exchange of the tensor gives what its readers need";
    return of_sum ? "its readers take the tensor before the sum, and a later tensor is summed"
                  : "its readers work on the parts that ranks have";
  }

  void add(ExchangeChange change, const StepGraph& graph, const Node& node, std::string_view why) {
    const StepTensor &from = graph.tensors[at(node.operands.front())], &to = graph.tensors[at(node.tensors.front())];
    const double seconds = prices_.seconds ? prices_.seconds(node.kind, node.axes, to.bytes()) : 0;
    entries_.push_back({.change = change,
                        .kind = node.kind,
                        .axes = node.axes,
                        .tensors = node.tensors,
                        .why = std::string(why),
                        .bytes = sent_by_move(from, node.axes, from.placements.along(node.axes),
                                              to.placements.along(node.axes), mesh_),
                        .seconds = change == ExchangeChange::Removed ? seconds : -seconds});
  }

  const StepGraph &before_, &after_;
  const Factorisation& mesh_;
  const ExchangePrices& prices_;
  ValueMoves was_, is_;
  std::vector<ExchangeEntry> entries_;
};

}  // namespace

std::vector<ExchangeEntry> placed_changes(const StepGraph& before, const StepGraph& after, const Factorisation& mesh,
                                          const ExchangePrices& prices) {
  return PlacedComparison(before, after, mesh, prices).run();
}

TrafficByAxes placed_traffic(const StepGraph& graph, const Factorisation& mesh, const ExchangePrices& prices) {
  TrafficByAxes traffic;
  for (const Node& node : graph.nodes) {
    if (!is_exchange(node.kind)) continue;
    AxesTraffic& along = traffic[node.axes];
    for (std::size_t i = 0; i < node.tensors.size(); ++i) {
      const StepTensor &from = graph.tensors[at(node.operands[i])], &to = graph.tensors[at(node.tensors[i])];
      along.bytes +=
          sent_by_move(from, node.axes, from.placements.along(node.axes), to.placements.along(node.axes), mesh);
    }
    ++along.exchanges;
    if (prices.seconds) along.seconds += prices.seconds(node.kind, node.axes, graph.bytes(node));
  }
  return traffic;
}

}  // namespace sinew::parallel
