#include <string>

#include <fmt/format.h>

#include <sinew/parallel/placement/shard_arithmetic.hpp>
#include <sinew/parallel/step_graph/placed/move.hpp>

namespace sinew::parallel {

std::optional<NodeKind> kind_of_move(const Placement& from, const Placement& to) noexcept {
  const bool to_whole = std::holds_alternative<Replicate>(to), to_shard = std::holds_alternative<Shard>(to);
  if (from == to || (!to_whole && !to_shard)) return std::nullopt;
  if (std::holds_alternative<Replicate>(from)) return NodeKind::Split;
  if (std::holds_alternative<Shard>(from)) return to_whole ? NodeKind::AllGather : NodeKind::AllToAll;
  return to_whole ? NodeKind::AllReduce : NodeKind::ReduceScatter;
}

Node move_of(NodeKind kind, std::string_view axis, TensorId from, TensorId to) {
  Node node{.kind = kind, .tensors = {to}, .axes = std::string(axis), .operands = {from}};
  if (kind == NodeKind::Split) node.name = fmt::format("split {}", to);
  return node;
}

TensorSpec spec_of(const StepTensor& tensor) { return {tensor.name, tensor.dtype, tensor.shape, tensor.placements}; }

std::int64_t sent_by_move(const StepTensor& tensor, std::string_view axis, const Placement& from, const Placement& to,
                          const Factorisation& mesh, int rank) {
  const std::optional<NodeKind> kind = kind_of_move(from, to);
  if (!kind || kind == NodeKind::Split) return 0;
  TensorSpec spec = spec_of(tensor);
  const auto boxes = [&](const Placement& placement) {
    spec.placements = spec.placements.with(axis, placement);
    return boxes_along(spec, axis, mesh, rank);
  };
  const std::int64_t whole = boxes(Replicate{}).front().elements(), others = mesh.size(axis) - 1;
  std::int64_t elements = (kind == NodeKind::AllReduce ? 2 : 1) * others * whole;
  if (kind == NodeKind::AllToAll) {
    const std::vector<Box> had = boxes(from), has = boxes(to);
    elements = whole;
    for (std::size_t r = 0; r < had.size(); ++r) elements -= intersection(had[r], has[r]).elements();
  }
  return elements * static_cast<std::int64_t>(size_of(tensor.dtype));
}

}  // namespace sinew::parallel
