#pragma once

#include <memory>
#include <string_view>

#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/common/blas.hpp>

namespace gpt {

using sinew::parallel::Blas;
using sinew::parallel::Product;

/// "host" is a BLAS library of the host on `threads` threads. "cublas" is loaded when it is asked for. It copies
/// operands.
/// Errors: Error{Unavailable} with the reason; InvalidArgument for another name.
std::unique_ptr<Blas> make_blas(std::string_view name, int threads);

std::unique_ptr<Blas> make_cublas();

}  // namespace gpt
