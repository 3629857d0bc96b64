// Combines what several ranks hold: dst[i] = (s0[i] op s1[i] op ...) * scale. One kernel for every type and operator;
// the host finds it as sinew_combine_OPERATOR_TYPE.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace {

constexpr int kMostSources = 16;  // as kernels.hpp

struct Sources {
  const void* at[kMostSources];
};

/// How a type is stored and computed in.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static __device__ T load(T v) { return v; }
  static __device__ T store(T v) { return v; }
};
using I8 = Plain<int8_t>;
using U8 = Plain<uint8_t>;
using I16 = Plain<int16_t>;
using U16 = Plain<uint16_t>;
using I32 = Plain<int32_t>;
using U32 = Plain<uint32_t>;
using I64 = Plain<int64_t>;
using U64 = Plain<uint64_t>;
using F32 = Plain<float>;
using F64 = Plain<double>;

struct F16 {
  using Stored = __half_raw;
  using Computed = float;
  static __device__ float load(Stored v) { return __half2float(__half(v)); }
  static __device__ Stored store(float v) { return __half_raw(__float2half_rn(v)); }
};
struct BF16 {
  using Stored = __nv_bfloat16_raw;
  using Computed = float;
  static __device__ float load(Stored v) { return __bfloat162float(__nv_bfloat16(v)); }
  static __device__ Stored store(float v) { return __nv_bfloat16_raw(__float2bfloat16_rn(v)); }
};
template <__nv_fp8_interpretation_t kKind>
struct F8 {
  using Stored = uint8_t;
  using Computed = float;
  static __device__ float load(Stored v) { return __half2float(__half(__nv_cvt_fp8_to_halfraw(v, kKind))); }
  static __device__ Stored store(float v) { return __nv_cvt_float_to_fp8(v, __NV_NOSAT, kKind); }
};
using F8E4M3 = F8<__NV_E4M3>;
using F8E5M2 = F8<__NV_E5M2>;

template <class C>
__device__ bool is_nan(C v) {
  return v != v;
}

struct Sum {
  template <class C>
  static __device__ C of(C a, C b) {
    return a + b;
  }
};
struct Product {
  template <class C>
  static __device__ C of(C a, C b) {
    return a * b;
  }
};
/// NaN in either operand gives NaN, and -0 is less than +0, as on the host.
struct Min {
  template <class C>
  static __device__ C of(C a, C b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a == b) return negative(a) ? a : b;
    return a < b ? a : b;
  }
  static __device__ bool negative(float v) { return signbit(v); }
  static __device__ bool negative(double v) { return signbit(v); }
  template <class C>
  static __device__ bool negative(C) {
    return true;
  }
};
struct Max {
  template <class C>
  static __device__ C of(C a, C b) {
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    if (a == b) return Min::negative(a) ? b : a;
    return a > b ? a : b;
  }
};
struct BitAnd {
  template <class C>
  static __device__ C of(C a, C b) {
    return a & b;
  }
};
struct BitOr {
  template <class C>
  static __device__ C of(C a, C b) {
    return a | b;
  }
};
struct BitXor {
  template <class C>
  static __device__ C of(C a, C b) {
    return a ^ b;
  }
};

/// Times a factor that the host gives as a double. Whole numbers are divided, as the host divides: the factor is 1/n.
template <class C>
__device__ C scaled(C v, double scale) {
  if constexpr (C(0.5) == C(0)) {
    return static_cast<C>(v / static_cast<C>(llrint(1.0 / scale)));
  } else {
    return static_cast<C>(v * static_cast<C>(scale));
  }
}

template <class Type, class Op>
__device__ typename Type::Stored combined(const typename Type::Stored* values, int n, double scale) {
  typename Type::Computed sum = Type::load(values[0]);
  for (int s = 1; s < n; ++s) sum = Op::of(sum, Type::load(values[s]));
  if (scale != 1.0) sum = scaled(sum, scale);
  return Type::store(sum);
}

/// 16 bytes per load and store where all memory is aligned so, else element by element.
template <class Type, class Op>
__device__ void combine(void* dst, const Sources& from, int n, size_t count, double scale) {
  using Stored = typename Type::Stored;
  constexpr int kPack = 16 / sizeof(Stored);
  const size_t thread = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  bool aligned = reinterpret_cast<uintptr_t>(dst) % 16 == 0;
  for (int s = 0; s < n; ++s) aligned = aligned && reinterpret_cast<uintptr_t>(from.at[s]) % 16 == 0;
  const size_t packs = aligned ? count / kPack : 0;
  union Pack {
    uint4 whole;
    Stored part[kPack];
  };
  for (size_t i = thread; i < packs; i += threads) {
    typename Type::Computed sum[kPack];
    Pack p;
    p.whole = static_cast<const uint4*>(from.at[0])[i];
#pragma unroll
    for (int k = 0; k < kPack; ++k) sum[k] = Type::load(p.part[k]);
    for (int s = 1; s < n; ++s) {
      p.whole = static_cast<const uint4*>(from.at[s])[i];
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[k] = Op::of(sum[k], Type::load(p.part[k]));
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) p.part[k] = Type::store(scale == 1.0 ? sum[k] : scaled(sum[k], scale));
    static_cast<uint4*>(dst)[i] = p.whole;
  }
  for (size_t i = packs * kPack + thread; i < count; i += threads) {
    Stored values[kMostSources];
    for (int s = 0; s < n; ++s) values[s] = static_cast<const Stored*>(from.at[s])[i];
    static_cast<Stored*>(dst)[i] = combined<Type, Op>(values, n, scale);
  }
}

}  // namespace

#define SINEW_KERNEL(op_name, Op, type_name, Type)                                                        \
  extern "C" __global__ void __launch_bounds__(512)                                                       \
      sinew_combine_##op_name##_##type_name(void* dst, Sources from, int n, size_t count, double scale) { \
    combine<Type, Op>(dst, from, n, count, scale);                                                        \
  }
#define SINEW_FOR_INTEGERS(row, op_name, Op)                                                                    \
  row(op_name, Op, i8, I8) row(op_name, Op, u8, U8) row(op_name, Op, i16, I16) row(op_name, Op, u16, U16)       \
      row(op_name, Op, i32, I32) row(op_name, Op, u32, U32) row(op_name, Op, i64, I64) row(op_name, Op, u64, U64)
#define SINEW_FOR_ALL(row, op_name, Op)                                                                         \
  SINEW_FOR_INTEGERS(row, op_name, Op)                                                                          \
  row(op_name, Op, f16, F16) row(op_name, Op, bf16, BF16) row(op_name, Op, f32, F32) row(op_name, Op, f64, F64) \
      row(op_name, Op, f8e4m3, F8E4M3) row(op_name, Op, f8e5m2, F8E5M2)

SINEW_FOR_ALL(SINEW_KERNEL, sum, Sum)
SINEW_FOR_ALL(SINEW_KERNEL, prod, Product)
SINEW_FOR_ALL(SINEW_KERNEL, min, Min)
SINEW_FOR_ALL(SINEW_KERNEL, max, Max)
SINEW_FOR_INTEGERS(SINEW_KERNEL, band, BitAnd)
SINEW_FOR_INTEGERS(SINEW_KERNEL, bor, BitOr)
SINEW_FOR_INTEGERS(SINEW_KERNEL, bxor, BitXor)
