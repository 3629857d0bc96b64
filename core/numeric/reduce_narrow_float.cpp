#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/reduce_narrow_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

Kernels narrow_float_kernels_here(ReduceOp op, DType dtype) {
  if (dtype == DType::F16) return arithmetic_kernels<HalfCodec>(op);
  if (dtype == DType::BF16) return arithmetic_kernels<BFloat16Codec>(op);
  if (dtype == DType::F8E4M3) return arithmetic_kernels<Float8E4M3Codec>(op);
  if (dtype == DType::F8E5M2) return arithmetic_kernels<Float8E5M2Codec>(op);
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(narrow_float_kernels_here);

Kernels narrow_float_kernels(ReduceOp op, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(narrow_float_kernels_here)(op, dtype);
}

}  // namespace sinew
#endif
