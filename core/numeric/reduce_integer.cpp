#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/reduce_integer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

/// Sums and products wrap: the same bits signed and unsigned, computed unsigned.
template <class Signed>
Kernels kernels_for_width(ReduceOp op, bool is_signed) {
  using Unsigned = std::make_unsigned_t<Signed>;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Average: return kernels_of<Plain<Unsigned>, SumOp>();
    case ReduceOp::Product: return kernels_of<Plain<Unsigned>, ProductOp>();
    case ReduceOp::Min: return is_signed ? kernels_of<Plain<Signed>, MinOp>() : kernels_of<Plain<Unsigned>, MinOp>();
    case ReduceOp::Max: return is_signed ? kernels_of<Plain<Signed>, MaxOp>() : kernels_of<Plain<Unsigned>, MaxOp>();
    case ReduceOp::PreMulSum:
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor:
    case ReduceOp::User: break;
  }
  return {};
}

Kernels integer_kernels_here(ReduceOp op, DType dtype) {
  const bool is_signed = is_signed_integer(dtype);
  if (!is_integer(dtype)) return {};
  if (size_of(dtype) == 1) return kernels_for_width<std::int8_t>(op, is_signed);
  if (size_of(dtype) == 2) return kernels_for_width<std::int16_t>(op, is_signed);
  if (size_of(dtype) == 4) return kernels_for_width<std::int32_t>(op, is_signed);
  return kernels_for_width<std::int64_t>(op, is_signed);
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(integer_kernels_here);

Kernels integer_kernels(ReduceOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(integer_kernels_here)(op, dtype); }

}  // namespace sinew
#endif
