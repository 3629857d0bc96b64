#include <algorithm>

#include <sinew/parallel/kernels/device_kernels.hpp>
#include <sinew/parallel/kernels/kernel_table.hpp>

namespace sinew::parallel {
namespace {

/// Elements whose squares one team adds. It does not depend on the device, and neither does the order of the sum.
constexpr std::int64_t kSquaresPerTeam = 64 << 10;

constexpr KernelTable<kernels::AdamArguments> kAdamKernels("adam");
constexpr KernelTable<kernels::SgdArguments> kSgdKernels("sgd");
constexpr KernelTable<kernels::ConvertArguments> kConvertKernels("convert");
constexpr KernelTable<kernels::SquaresArguments> kSquaresKernels("squares");

}  // namespace

void DeviceKernels::adam(DType value, DType gradient, void* values, const void* gradients, void* state,
                         std::int64_t count, const AdamStep& step) {
  launcher_.start(kAdamKernels.at(value, gradient), launcher_.teams_for(count),
                  {values, gradients, state, count, step});
}

void DeviceKernels::sgd(DType value, DType gradient, void* values, const void* gradients, void* state,
                        std::int64_t count, const SgdStep& step) {
  launcher_.start(kSgdKernels.at(value, gradient), launcher_.teams_for(count), {values, gradients, state, count, step});
}

void DeviceKernels::convert(DType from, DType to, const void* in, void* out, std::int64_t count) {
  launcher_.start(kConvertKernels.at(from, to), launcher_.teams_for(count), {in, out, count});
}

std::int64_t DeviceKernels::square_sums(std::int64_t count) {
  return std::max<std::int64_t>(1, (count + kSquaresPerTeam - 1) / kSquaresPerTeam);
}

void DeviceKernels::squares(DType dtype, const void* in, std::int64_t count, double* partial) {
  launcher_.start(kSquaresKernels.at(dtype), count == 0 ? 0 : square_sums(count), {in, partial, count});
}

}  // namespace sinew::parallel
