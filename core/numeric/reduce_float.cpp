#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/reduce_float.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

Kernels float_kernels_here(ReduceOp op, DType dtype) {
  if (dtype == DType::F32) return arithmetic_kernels<Plain<float>>(op);
  if (dtype == DType::F64) return arithmetic_kernels<Plain<double>>(op);
  return {};
}

const char* target_here() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(float_kernels_here);
HWY_EXPORT(target_here);

Kernels float_kernels(ReduceOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(float_kernels_here)(op, dtype); }

std::string_view kernel_target() noexcept { return HWY_DYNAMIC_DISPATCH(target_here)(); }

}  // namespace sinew
#endif
