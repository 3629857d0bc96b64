#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/step_graph/placed/bound_rule.hpp>
#include <sinew/parallel/step_graph/placed/growing_graph.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {
namespace {

// Suffixes of the names of moved tensors.
constexpr std::string_view kWhole = " whole", kParts = " in parts";

}  // namespace

TensorId add_tensor(StepGraph& graph, StepTensor tensor) {
  if (tensor.path.empty()) tensor.path = tensor.name;
  tensor.elements = spec_of(tensor).elements();
  graph.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

TensorId add_compute(StepGraph& graph, const Factorisation& mesh, Node compute, StepTensor result) {
  const TensorId made = add_tensor(graph, std::move(result));
  compute.kind = NodeKind::Compute;
  compute.tensors = {made};
  const BoundRule rule(graph, compute);
  const auto require = [&](const std::string& fault) {
    if (fault.empty()) return;
    graph.tensors.pop_back();
    throw Error(Code::InvalidArgument, fmt::format("compute {}: {}", compute.name, fault));
  };
  require(rule.fault());
  Placements placements;
  for (const Axis& axis : mesh.axes()) {
    std::vector<Placement> operands;
    for (const TensorId t : compute.operands)
      operands.push_back(graph.tensors[static_cast<std::size_t>(t)].placements.along(axis.name));
    const BoundRule::Outcome outcome = rule.derive(operands, axis);
    require(outcome.fault);
    placements = placements.with(axis.name, outcome.results.front());
  }
  graph.tensors.back().placements = std::move(placements);
  graph.nodes.push_back(std::move(compute));
  return made;
}

TensorId add_move(StepGraph& graph, const Factorisation& mesh, TensorId tensor, const std::string& axis,
                  const Placement& to) {
  StepTensor result = graph.tensors[static_cast<std::size_t>(tensor)];
  const Placement from = result.placements.along(axis);
  const int ranks = mesh.size(axis);
  if (plain(from, result.shape, ranks) == plain(to, result.shape, ranks)) return tensor;
  const auto kind = kind_of_move(from, to);
  if (!kind)
    throw Error(Code::InvalidArgument, fmt::format("tensor {} along {}: there is no way from {} to {}",
                                                   spec_of(result).to_string(), axis, to_string(from), to_string(to)));
  for (const std::string_view suffix : {kWhole, kParts}) {
    if (result.name.ends_with(suffix)) result.name.resize(result.name.size() - suffix.size());
  }
  result.name += std::holds_alternative<Replicate>(to) ? kWhole : kParts;
  result.placements = result.placements.with(axis, to);
  const TensorId made = add_tensor(graph, std::move(result));
  Node move = move_of(*kind, axis, tensor, made);
  if (is_exchange(*kind)) move.exchange = graph.next_exchange();
  graph.nodes.push_back(std::move(move));
  return made;
}

}  // namespace sinew::parallel
