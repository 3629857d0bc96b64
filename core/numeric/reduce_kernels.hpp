#pragma once

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>

namespace sinew {

/// The two forms of one operator on one element type, for the instruction set of this CPU.
struct Kernels {
  ReduceFn pair = nullptr;
  ReduceManyFn many = nullptr;
};

using ScaleFn = void (*)(void* dst, const void* src, std::size_t count, double factor) noexcept;

/// Each file of kernels answers for its own element types and operators; null where it has none.
Kernels integer_kernels(ReduceOp op, DType dtype);
Kernels bitwise_kernels(ReduceOp op, DType dtype);
Kernels float_kernels(ReduceOp op, DType dtype);
Kernels narrow_float_kernels(ReduceOp op, DType dtype);
ScaleFn scale_kernel(DType dtype);

}  // namespace sinew
