// The kernels of team_kernels.hpp for CUDA. The host finds each by its name: sinew_KERNEL_TYPES (kernel_table.hpp).
#define SINEW_KERNEL __device__
#include <sinew/parallel/kernels/block.hpp>
#include <sinew/parallel/kernels/team_kernels.hpp>

namespace sinew::parallel::kernels {

#define SINEW_ONE(kernel, T, Argument)                                                                   \
  extern "C" __global__ void __launch_bounds__(kThreads) sinew_##kernel##_##T(const Argument argument) { \
    kernel<T>(Block(), argument);                                                                        \
  }
#define SINEW_TWO(kernel, First, Second, Argument)                   \
  extern "C" __global__ void __launch_bounds__(kThreads)             \
      sinew_##kernel##_##First##_##Second(const Argument argument) { \
    kernel<First, Second>(Block(), argument);                        \
  }
SINEW_DEVICE_KERNELS(SINEW_ONE, SINEW_TWO)

}  // namespace sinew::parallel::kernels
