#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::parallel {

/// Returns whether the operator has a neutral element, which changes no other value. An average has none.
constexpr bool has_neutral(ReduceOp op) noexcept {
  return op != ReduceOp::Average && op != ReduceOp::PreMulSum && op != ReduceOp::User;
}

/// Fills `out` with the neutral element. For a sum of floats it is -0, because +0 would turn -0 into +0. For min and
/// max it is the largest and the smallest value, infinite if the dtype has infinities.
/// Shape: has_neutral(op), and op is defined for dtype.
SINEW_API void fill_neutral(Buffer out, DType dtype, ReduceOp op);

}  // namespace sinew::parallel
