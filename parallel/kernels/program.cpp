#include <sinew/parallel/kernels/program.hpp>

#if SINEW_WITH_DEVICE_KERNELS
extern "C" const unsigned char sinew_parallel_kernels[];
#endif

namespace sinew::parallel {

const DeviceProgram& device_program() {
#if SINEW_WITH_DEVICE_KERNELS
  static const DeviceProgram program{"parallelism", sinew_parallel_kernels};
#else
  static const DeviceProgram program{"parallelism", nullptr};
#endif
  return program;
}

}  // namespace sinew::parallel
