#include "noise.hpp"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>

namespace sinew::tools {
namespace {

constexpr double kTicksOfDoubt = 2;

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double tick_s() {
  static const double seconds = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds;
}

}  // namespace

CpuCounts read_cpu_counts() {
  CpuCounts counts;
  counts.wall_s = seconds_of(CLOCK_MONOTONIC);
  counts.own_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  counts.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  if (stat >> label >> user >> nice >> system >> idle >> waiting) counts.idle_s = (idle + waiting) * tick_s();
  return counts;
}

double outside_share(const CpuCounts& before, const CpuCounts& after, double job_s) noexcept {
  const double all = (after.wall_s - before.wall_s) * after.cores;
  if (all <= 0) return 0;
  const double outside = all - (after.idle_s - before.idle_s) - job_s - kTicksOfDoubt * tick_s();
  return std::max(0.0, outside / all);
}

NoiseGauge::NoiseGauge(Ranks& ranks, std::vector<int> accounted, bool ranks_fit, std::function<CpuCounts()> read_counts)
    : ranks_(ranks), accounted_(std::move(accounted)), fits_(ranks_fit), read_counts_(std::move(read_counts)) {}

bool NoiseGauge::batch_was_delayed(double elapsed_s) const noexcept {
  return fits_ && displaced(batch_before_, delay_.read(), elapsed_s, kNoiseShare);
}

bool NoiseGauge::span_was_noisy() {
  const CpuCounts after = read_counts_();
  const double mine = after.own_s - span_before_.own_s;
  const std::vector<double> everybody = ranks_.gather({&mine, 1});
  double job = 0;
  for (const int r : accounted_) job += everybody[static_cast<std::size_t>(r)];
  const bool judges = std::ranges::find(accounted_, ranks_.rank()) != accounted_.end();
  return ranks_.largest(judges ? outside_share(span_before_, after, job) : 0) > kNoiseShare;
}

}  // namespace sinew::tools
