#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sinew/core/numeric/reduce_bitwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <sinew/core/numeric/reduce_sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace sinew {
namespace HWY_NAMESPACE {

template <class Op>
Kernels bitwise_for_width(std::size_t bytes) {
  if (bytes == 1) return kernels_of<Plain<std::uint8_t>, Op>();
  if (bytes == 2) return kernels_of<Plain<std::uint16_t>, Op>();
  if (bytes == 4) return kernels_of<Plain<std::uint32_t>, Op>();
  return kernels_of<Plain<std::uint64_t>, Op>();
}

Kernels bitwise_kernels_here(ReduceOp op, DType dtype) {
  if (!is_integer(dtype)) return {};
  if (op == ReduceOp::BitAnd) return bitwise_for_width<AndOp>(size_of(dtype));
  if (op == ReduceOp::BitOr) return bitwise_for_width<OrOp>(size_of(dtype));
  if (op == ReduceOp::BitXor) return bitwise_for_width<XorOp>(size_of(dtype));
  return {};
}

}  // namespace HWY_NAMESPACE
}  // namespace sinew
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinew {

HWY_EXPORT(bitwise_kernels_here);

Kernels bitwise_kernels(ReduceOp op, DType dtype) { return HWY_DYNAMIC_DISPATCH(bitwise_kernels_here)(op, dtype); }

}  // namespace sinew
#endif
