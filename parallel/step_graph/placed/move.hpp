#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sinew/parallel/mesh/factorisation.hpp>
#include <sinew/parallel/placement/tensor.hpp>
#include <sinew/parallel/step_graph/graph.hpp>

namespace sinew::parallel {

/// The node that makes a tensor of another one along an axis: an exchange or a split; none: there is no such way.
std::optional<NodeKind> kind_of_move(const Placement& from, const Placement& to) noexcept;

/// Bytes that all ranks of a group along `axis` together send at least, by a ring.
/// Shape: `tensor` is valid along its other axes; both placements are along this one.
std::int64_t sent_by_move(const StepTensor& tensor, std::string_view axis, const Placement& from, const Placement& to,
                          const Factorisation& mesh);

/// That node; a split is called by the number of what it makes.
Node move_of(NodeKind kind, std::string_view axis, TensorId from, TensorId to);

TensorSpec spec_of(const StepTensor& tensor);

}  // namespace sinew::parallel
