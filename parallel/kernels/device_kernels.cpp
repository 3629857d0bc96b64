#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/device_kernels.hpp>
#include <sinew/parallel/kernels/program.hpp>
#include <sinew/parallel/kernels/team_kernels.hpp>

namespace sinew::parallel {
namespace {

using kernels::kThreads;

/// Elements for which one thread is started, up to the number of threads that fill the device.
constexpr std::int64_t kElementsPerThread = 4;
constexpr int kTeamsPerMultiprocessor = 8;
/// Elements whose squares one team adds. It does not depend on the device, and neither does the order of the sum.
constexpr std::int64_t kSquaresPerTeam = 64 << 10;

/// The names of all kernels.
#define SINEW_KERNEL_NAME(name, function, Argument) std::string_view(#name),
constexpr std::array kNames{SINEW_DEVICE_KERNELS(SINEW_KERNEL_NAME)};
#undef SINEW_KERNEL_NAME

/// The name of the kernel for these dtypes.
std::string named(std::string_view kernel, DType first, DType second) {
  std::string name = first == second ? fmt::format("{}_{}", kernel, name_of(first))
                                     : fmt::format("{}_{}_{}", kernel, name_of(first), name_of(second));
  if (std::ranges::find(kNames, name) != kNames.end()) return name;
  std::vector<std::string_view> known;
  std::ranges::copy_if(kNames, std::back_inserter(known), [&](std::string_view each) {
    return each.starts_with(kernel) && each.substr(kernel.size()).starts_with('_');
  });
  throw Error(Code::InvalidArgument, fmt::format("{} on a device: there is no kernel {}, expected one of {}", kernel,
                                                 name, fmt::join(known, ", ")));
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
  start(named("adam", value, gradient), teams_for(count),
        kernels::AdamArguments{values, gradients, state, count, step});
}

void DeviceKernels::sgd(DType value, DType gradient, void* values, const void* gradients, void* state,
                        std::int64_t count, const SgdStep& step) {
  start(named("sgd", value, gradient), teams_for(count), kernels::SgdArguments{values, gradients, state, count, step});
}

void DeviceKernels::convert(DType from, DType to, const void* in, void* out, std::int64_t count) {
  start(named("convert", from, to), teams_for(count), kernels::ConvertArguments{in, out, count});
}

std::int64_t DeviceKernels::square_sums(std::int64_t count) {
  return std::max<std::int64_t>(1, (count + kSquaresPerTeam - 1) / kSquaresPerTeam);
}

void DeviceKernels::squares(DType dtype, const void* in, std::int64_t count, double* partial) {
  start(named("squares", dtype, dtype), square_sums(count), kernels::SquaresArguments{in, partial, count});
}

}  // namespace sinew::parallel
