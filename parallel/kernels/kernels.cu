// The kernels of team_kernels.hpp for CUDA. The host finds each by its name: sinew_KERNEL.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#define SINEW_KERNEL __device__
#include <sinew/parallel/kernels/team_kernels.hpp>

namespace {

using sinew::parallel::kernels::kThreads;
constexpr int kWarp = 32;

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

  template <class F>
  __device__ auto sum(std::int64_t first, std::int64_t last, const F& f) const {
    using Sum = decltype(f(first));
    __shared__ Sum of_warp[kThreads / kWarp];
    Sum sum{};
    for (std::int64_t i = first + threadIdx.x; i < last; i += kThreads) sum += f(i);
    sum = over_warp(sum);
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
    __syncthreads();
    sum = threadIdx.x % kWarp < kThreads / kWarp ? of_warp[threadIdx.x % kWarp] : Sum{};
    sum = over_warp(sum);
    __syncthreads();  // the next sum uses the same memory
    return sum;
  }

  template <class F>
  __device__ void once(const F& f) const {
    if (threadIdx.x == 0) f();
  }

  static __device__ double wide(double x) { return x; }
  static __device__ float wide(float x) { return x; }
  static __device__ float wide(sinew::BFloat16 x) { return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{x.bits})); }
  static __device__ float wide(sinew::Half x) { return __half2float(__half(__half_raw{x.bits})); }
  template <class T, class C>
  static __device__ T narrow(C x) {
    if constexpr (std::is_same_v<T, sinew::BFloat16>) {
      return {__nv_bfloat16_raw(__float2bfloat16_rn(x)).x};
    } else if constexpr (std::is_same_v<T, sinew::Half>) {
      return {__half_raw(__float2half_rn(x)).x};
    } else {
      return static_cast<T>(x);
    }
  }

  static __device__ double root(double x) { return sqrt(x); }
  static __device__ float root(float x) { return sqrtf(x); }

 private:
  /// All threads of the warp get the sum.
  template <class Sum>
  static __device__ Sum over_warp(Sum sum) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    return sum;
  }
};

}  // namespace

namespace sinew::parallel::kernels {

#define SINEW_DEFINE(name, function, Argument)                                                  \
  extern "C" __global__ void __launch_bounds__(kThreads) sinew_##name(const Argument argument) { \
    function(Block(), argument);                                                                \
  }
SINEW_DEVICE_KERNELS(SINEW_DEFINE)

}  // namespace sinew::parallel::kernels
