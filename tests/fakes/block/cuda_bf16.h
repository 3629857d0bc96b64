#pragma once

// The part of this header of CUDA that parallel/kernels/block.hpp uses.
#include <sinew/core/float_formats.hpp>

#include "fakes/block/cuda_words.hpp"

struct __nv_bfloat16_raw {
  unsigned short x;
};
struct __nv_bfloat16 {
  unsigned short x;
  explicit __nv_bfloat16(__nv_bfloat16_raw raw) : x(raw.x) {}
  explicit operator __nv_bfloat16_raw() const { return {x}; }
};
inline float __bfloat162float(__nv_bfloat16 x) { return sinew::to_float(sinew::BFloat16{x.x}); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return __nv_bfloat16(__nv_bfloat16_raw{sinew::to_bfloat16(x).bits});
}
