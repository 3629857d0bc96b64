#pragma once

#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// Why this is no buffer for what `rank` holds of the tensor; empty: it is one. `which` names it.
/// Shape: a valid spec.
std::string fault_of_buffer(const TensorSpec& spec, ConstBuffer buffer, std::string_view which,
                            const Factorisation& mesh, int rank);

bool overlap(ConstBuffer a, ConstBuffer b) noexcept;

}  // namespace sinew::parallel
