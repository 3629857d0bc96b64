#pragma once

// The part of this header of CUDA that parallel/kernels/block.hpp uses.
#include <sinew/core/float_formats.hpp>

#include "fakes/block/cuda_words.hpp"

struct __half_raw {
  unsigned short x;
};
struct __half {
  unsigned short x;
  explicit __half(__half_raw raw) : x(raw.x) {}
  explicit operator __half_raw() const { return {x}; }
};
inline float __half2float(__half x) { return sinew::to_float(sinew::Half{x.x}); }
inline __half __float2half_rn(float x) { return __half(__half_raw{sinew::to_half(x).bits}); }
