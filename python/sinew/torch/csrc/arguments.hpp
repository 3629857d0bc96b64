#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "operation.hpp"

namespace sinew::torch_backend::arguments {

// What c10d's other backends check, with their texts, as programs look for them.
// Errors: RuntimeError "SinewBackend::FUNCTION: ...", on every rank that gave the wrong argument.

/// A root is a rank of the group. c10d lets the root have several tensors, of which one is taken; here there is one.
void require_root(const Operation& operation, std::int64_t root, int size);
/// The list has one dense tensor, which is returned.
const at::Tensor& only(const Operation& operation, at::TensorList tensors, const char* what);
/// The lists are not empty and equally long.
void require_equal_lists(const Operation& operation, std::size_t outputs, std::size_t inputs);
/// `list` has one tensor for each rank, all dense and of the dtype of `like`.
void require_one_per_rank(const Operation& operation, at::TensorList list, const at::Tensor& like, int size,
                          const char* what);
/// `all` has the dtype of `part` and `size` times its elements.
void require_parts(const Operation& operation, const at::Tensor& all, const at::Tensor& part, int size);
std::uint32_t tag(const Operation& operation, int tag);

}  // namespace sinew::torch_backend::arguments
