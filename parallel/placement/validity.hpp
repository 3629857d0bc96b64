#pragma once

#include <string>

#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// What require_valid would say of it; empty: nothing.
std::string fault_of(const TensorSpec& spec, const Factorisation& mesh);

}  // namespace sinew::parallel
