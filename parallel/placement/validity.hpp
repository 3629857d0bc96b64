#pragma once

#include <string>

#include <sinew/parallel/placement/tensor.hpp>

namespace sinew::parallel {

/// The text of the error that require_valid would throw. Empty: it would throw none.
std::string fault_of(const TensorSpec& spec, const Factorisation& mesh);

}  // namespace sinew::parallel
