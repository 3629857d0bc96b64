#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// The kind of the node that brings a tensor from one placement along an axis to another: an exchange or a split.
/// nullopt: there is none.
std::optional<NodeKind> kind_of_move(const Placement& from, const Placement& to) noexcept;

/// Bytes that all ranks of a group along `axis` together send at least, with a ring. The group is that of `rank`.
/// Shape: `tensor` is valid along its other axes. Both placements are along this axis.
std::int64_t sent_by_move(const StepTensor& tensor, std::string_view axis, const Placement& from, const Placement& to,
                          const Factorisation& mesh, int rank = 0);

/// The node of a move. A split is named by the number of the tensor that it makes.
Node move_of(NodeKind kind, std::string_view axis, TensorId from, TensorId to);

TensorSpec spec_of(const StepTensor& tensor);

}  // namespace sinew::parallel
