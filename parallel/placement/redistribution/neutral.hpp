#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew::parallel {

/// Is there an element that changes no other one under this operator? An average has none.
constexpr bool has_neutral(ReduceOp op) noexcept {
  return op != ReduceOp::Average && op != ReduceOp::PreMulSum && op != ReduceOp::User;
}

/// Fills `out` with it. A sum of floats has -0: +0 would make +0 of -0. Of min and max the largest and the least value,
/// infinite where the dtype has that.
/// Shape: has_neutral(op), and op is defined for dtype.
SINEW_API void fill_neutral(Buffer out, DType dtype, ReduceOp op);

}  // namespace sinew::parallel
