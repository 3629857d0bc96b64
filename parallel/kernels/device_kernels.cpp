#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/device_kernels.hpp>
#include <sinew/parallel/kernels/program.hpp>

namespace sinew::parallel {
namespace {

constexpr unsigned kThreads = 256;  // as kernels.cu
/// Elements for which one thread is started, up to the number of threads that fill the device.
constexpr std::int64_t kElementsPerThread = 4;
constexpr int kTeamsPerMultiprocessor = 8;
/// Elements whose squares one team adds. It does not depend on the device, and neither does the order of the sum.
constexpr std::int64_t kSquaresPerTeam = 64 << 10;

std::string named(std::string_view kernel, DType value, DType gradient) {
  return value == gradient ? fmt::format("{}_{}", kernel, name_of(value))
                           : fmt::format("{}_{}_{}", kernel, name_of(value), name_of(gradient));
}

bool is_float(DType d) { return d == DType::F64 || d == DType::F32 || d == DType::BF16 || d == DType::F16; }

void require_float(std::string_view kernel, DType dtype) {
  if (!is_float(dtype))
    throw Error(Code::InvalidArgument,
                fmt::format("{} on a device: elements of {}, expected f16, bf16, f32 or f64", kernel, name_of(dtype)));
}

}  // namespace

DeviceKernels::DeviceKernels(const ComputeDevice& device)
    : device_(device),
      most_teams_(std::int64_t{kTeamsPerMultiprocessor} *
                  device.runtime->traits(device.stream.device).multiprocessors) {}

std::int64_t DeviceKernels::teams_for(std::int64_t count) const {
  constexpr std::int64_t kElementsPerTeam = kThreads * kElementsPerThread;
  return std::min(most_teams_, (count + kElementsPerTeam - 1) / kElementsPerTeam);
}

template <class Argument>
void DeviceKernels::start(const std::string& kernel, std::int64_t teams, const Argument& argument) {
  if (argument.count == 0) return;
  const std::string name = "sinew_" + kernel;
  device_.runtime->launch(
      device_program(),
      {.kernel = name.c_str(), .teams = static_cast<unsigned>(teams), .threads = kThreads, .argument = &argument},
      device_.stream);
}

void DeviceKernels::adam(DType value, DType gradient, void* values, const void* gradients, void* state,
                         std::int64_t count, const AdamStep& step) {
  require_float("adam", value);
  start(named("adam", value, gradient), teams_for(count),
        kernels::AdamArguments{values, gradients, state, count, step});
}

void DeviceKernels::sgd(DType value, DType gradient, void* values, const void* gradients, void* state,
                        std::int64_t count, const SgdStep& step) {
  require_float("sgd", value);
  start(named("sgd", value, gradient), teams_for(count), kernels::SgdArguments{values, gradients, state, count, step});
}

void DeviceKernels::convert(DType from, DType to, const void* in, void* out, std::int64_t count) {
  require_float("convert", from);
  require_float("convert", to);
  start(named("convert", from, to), teams_for(count), kernels::ConvertArguments{in, out, count});
}

void DeviceKernels::scale(DType dtype, void* values, std::int64_t count, double factor) {
  require_float("scale", dtype);
  start(named("scale", dtype, dtype), teams_for(count), kernels::ScaleArguments{values, count, factor});
}

std::int64_t DeviceKernels::square_sums(std::int64_t count) {
  return std::max<std::int64_t>(1, (count + kSquaresPerTeam - 1) / kSquaresPerTeam);
}

void DeviceKernels::squares(DType dtype, const void* in, std::int64_t count, double* partial) {
  require_float("squares", dtype);
  start(named("squares", dtype, dtype), square_sums(count), kernels::SquaresArguments{in, partial, count});
}

}  // namespace sinew::parallel
