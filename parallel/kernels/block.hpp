#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <sinew/core/float_formats.hpp>
#include <sinew/parallel/kernels/arguments.hpp>

// The Team of CUDA (team.hpp): a block of kThreads threads. Its groups are warps, or the whole block.
namespace sinew::parallel::kernels {

/// The threads that share the rows of one column in for_columns().
inline constexpr int kRowLanes = kThreads / kColumnsOfTeam;

/// The value of the thread whose number in the warp differs in these bits.
template <class Value>
__device__ Value exchanged(const Value& value, int bits) {
  constexpr int kWords = sizeof(Value) / sizeof(unsigned);
  static_assert(sizeof(Value) == kWords * sizeof(unsigned));
  unsigned words[kWords];
  memcpy(words, &value, sizeof value);
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_xor_sync(~0u, words[i], bits);
  Value other;
  memcpy(&other, words, sizeof other);
  return other;
}

/// The threads of a warp, or of the block.
template <int kSize>
class Group {
  static_assert(kSize == kWarp || kSize == kThreads);

 public:
  template <class F>
  __device__ void each(std::int64_t count, const F& f) const {
    for (std::int64_t i = thread(); i < count; i += kSize) f(i);
  }

  template <class Value, class F, class Join>
  __device__ Value join(std::int64_t count, const Value& start, const F& f, const Join& join) const {
    Value value = start;
    for (std::int64_t i = thread(); i < count; i += kSize) value = join(value, f(i));
    return over_all(value, join);
  }

  template <class F>
  __device__ std::int64_t first(std::int64_t from, std::int64_t to, const F& f) const {
    for (std::int64_t at = from; at < to; at += kSize) {
      const std::int64_t i = at + thread();
      const int here = i < to && f(i) ? thread() : kSize;
      const int found = over_all(here, [](int a, int b) { return a < b ? a : b; });
      if (found < kSize) return at + found;
    }
    return to;
  }

  template <class F>
  __device__ void once(const F& f) const {
    if (thread() == 0) f();
  }

 private:
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % kSize; }

  /// Joins the values of all threads. All of them get the result.
  template <class Value, class Join>
  static __device__ Value over_all(Value value, const Join& join) {
    for (int bits = kWarp / 2; bits > 0; bits /= 2) value = join(value, exchanged(value, bits));
    if constexpr (kSize == kThreads) {
      __shared__ Value of_warp[kWarpsOfTeam];
      if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = of_warp[0];
      for (int w = 1; w < kWarpsOfTeam; ++w) value = join(value, of_warp[w]);
      __syncthreads();  // the next call uses the same memory
    }
    return value;
  }
};

/// A block of threads.
class Block {
 public:
  __device__ int index() const { return static_cast<int>(blockIdx.x); }
  __device__ int teams() const { return static_cast<int>(gridDim.x); }

  template <class T>
  __device__ T* memory(T* address, std::int64_t) const {
    return address;
  }

  template <class F>
  __device__ void for_each(std::int64_t count, const F& f) const {
    const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) f(i);
  }

  __device__ Group<kThreads> whole() const { return {}; }

  template <class F>
  __device__ void for_rows(std::int64_t rows, std::int64_t width, const F& f) const {
    if (width <= kRowOfWarp) {
      const std::int64_t step = std::int64_t{gridDim.x} * kWarpsOfTeam;
      for (std::int64_t r = std::int64_t{blockIdx.x} * kWarpsOfTeam + threadIdx.x / kWarp; r < rows; r += step)
        f(Group<kWarp>(), r);
    } else {
      for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) f(whole(), r);
    }
  }

  template <class F, class G>
  __device__ void for_columns(std::int64_t columns, std::int64_t rows, const F& f, const G& g) const {
    using Sum = decltype(f(rows, columns));
    __shared__ Sum of_lane[kRowLanes][kColumnsOfTeam];
    const int lane = static_cast<int>(threadIdx.x) / kColumnsOfTeam,
              at = static_cast<int>(threadIdx.x) % kColumnsOfTeam;
    const std::int64_t step = std::int64_t{gridDim.x} * kColumnsOfTeam;
    for (std::int64_t first = std::int64_t{blockIdx.x} * kColumnsOfTeam; first < columns; first += step) {
      const std::int64_t c = first + at;
      Sum sum{};
      if (c < columns) {
#pragma unroll 4
        for (std::int64_t r = lane; r < rows; r += kRowLanes) sum += f(r, c);
      }
      of_lane[lane][at] = sum;
      __syncthreads();
      if (lane == 0 && c < columns) {
        for (int l = 1; l < kRowLanes; ++l) sum += of_lane[l][at];
        g(c, sum);
      }
      __syncthreads();  // the next columns use the same memory
    }
  }

  static __device__ double wide(double x) { return x; }
  static __device__ float wide(float x) { return x; }
  static __device__ float wide(BFloat16 x) { return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{x.bits})); }
  static __device__ float wide(Half x) { return __half2float(__half(__half_raw{x.bits})); }
  template <class T, class C>
  static __device__ T narrow(C x) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return {__nv_bfloat16_raw(__float2bfloat16_rn(static_cast<float>(x))).x};
    } else if constexpr (std::is_same_v<T, Half>) {
      return {__half_raw(__float2half_rn(static_cast<float>(x))).x};
    } else {
      return static_cast<T>(x);
    }
  }

  static __device__ double root(double x) { return ::sqrt(x); }
  static __device__ float root(float x) { return ::sqrtf(x); }
  static __device__ double exp(double x) { return ::exp(x); }
  static __device__ float exp(float x) { return ::expf(x); }
  static __device__ double log(double x) { return ::log(x); }
  static __device__ float log(float x) { return ::logf(x); }
  static __device__ double tanh(double x) { return ::tanh(x); }
  static __device__ float tanh(float x) { return ::tanhf(x); }
};

}  // namespace sinew::parallel::kernels
