#include <algorithm>

#include <sinew/parallel/kernels/arguments.hpp>
#include <sinew/parallel/kernels/launcher.hpp>
#include <sinew/parallel/kernels/program.hpp>

namespace sinew::parallel {
namespace {

using kernels::kThreads;

/// Elements for which one thread is started, up to the number of threads that fill the device.
constexpr std::int64_t kElementsPerThread = 4;
constexpr int kTeamsPerMultiprocessor = 8;

std::int64_t rounded_up(std::int64_t count, std::int64_t each) noexcept { return (count + each - 1) / each; }

}  // namespace

Launcher::Launcher(const ComputeDevice& device)
    : device_(device),
      most_teams_(std::int64_t{kTeamsPerMultiprocessor} *
                  device.runtime->traits(device.stream.device).multiprocessors) {}

std::int64_t Launcher::teams_for(std::int64_t elements) const noexcept {
  return std::min(most_teams_, rounded_up(elements, kThreads * kElementsPerThread));
}

std::int64_t Launcher::teams_for_rows(std::int64_t rows, std::int64_t width) const noexcept {
  return std::min(most_teams_, width <= kernels::kRowOfWarp ? rounded_up(rows, kernels::kWarpsOfTeam) : rows);
}

std::int64_t Launcher::teams_for_columns(std::int64_t columns) const noexcept {
  return std::min(most_teams_, rounded_up(columns, kernels::kColumnsOfTeam));
}

void Launcher::launch(const char* kernel, std::int64_t teams, const void* argument) const {
  device_.runtime->launch(
      device_program(),
      {.kernel = kernel, .teams = static_cast<unsigned>(teams), .threads = kThreads, .argument = argument},
      device_.stream);
}

}  // namespace sinew::parallel
