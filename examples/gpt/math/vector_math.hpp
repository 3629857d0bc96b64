#pragma once

#include <sinew/parallel/modules/vector_kernels.hpp>

namespace gpt {

using namespace sinew::parallel::kernels;

}  // namespace gpt
