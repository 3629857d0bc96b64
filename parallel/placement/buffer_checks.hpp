#pragma once

#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// Says why this buffer cannot hold the part of the tensor that `rank` has. Empty: it can. `which` names the buffer.
/// Shape: a valid spec.
std::string fault_of_buffer(const TensorSpec& spec, ConstBuffer buffer, std::string_view which,
                            const Factorisation& mesh, int rank);

bool overlap(ConstBuffer a, ConstBuffer b) noexcept;

}  // namespace sinew::parallel
