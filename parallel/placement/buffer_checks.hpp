#pragma once

#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// Why this buffer cannot hold what `rank` has of the tensor. Empty: it can. `which` names the buffer.
/// Shape: a valid spec.
std::string fault_of_buffer(const TensorSpec& spec, ConstBuffer buffer, std::string_view which,
                            const Factorisation& mesh, int rank);

bool overlap(ConstBuffer a, ConstBuffer b) noexcept;

}  // namespace sinew::parallel
