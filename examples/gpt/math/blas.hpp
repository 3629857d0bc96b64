#pragma once

#include <memory>
#include <string_view>

#include <sinew/core/call/cost.hpp>
#include <sinew/parallel/common/blas.hpp>

namespace gpt {

using sinew::parallel::Blas;
using sinew::parallel::Product;

/// "openblas" on `threads` threads of the host, or "cublas", which is loaded when it is asked for and copies operands.
/// Errors: Error{Unavailable} with the reason; InvalidArgument for another name.
std::unique_ptr<Blas> make_blas(std::string_view name, int threads);

std::unique_ptr<Blas> make_openblas(int threads);
std::unique_ptr<Blas> make_cublas();

}  // namespace gpt
