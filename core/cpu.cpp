#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sinew/core/cpu.hpp>

namespace sinew {
namespace {

/// Calls take(mask, its bytes, CPUs it has room for) with the affinity mask; false where the kernel does not say.
template <class Take>
bool with_affinity(Take take) {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    if (known) take(set, bytes, cpus);
    CPU_FREE(set);
    if (known) return true;
  }
  return false;
}

int affinity_cores() {
  int count = 0;
  const bool known =
      with_affinity([&](const cpu_set_t* set, std::size_t bytes, int) { count = CPU_COUNT_S(bytes, set); });
  return known ? count : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// cgroup v2 has "max 100000" or "200000 100000"; v1 has two files.
double quota_cores() noexcept {
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    std::string quota;
    double period = 0;
    if (v2 >> quota >> period && quota != "max" && period > 0) return std::strtod(quota.c_str(), nullptr) / period;
    return 0;
  }
  double quota = 0;
  double period = 0;
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return q >> quota && p >> period && quota > 0 && period > 0 ? quota / period : 0;
}

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  with_affinity([&](const cpu_set_t* set, std::size_t bytes, int room) {
    for (int cpu = 0; cpu < room; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
  });
  return cpus;
}

int usable_cores() noexcept {
  const int cores = affinity_cores();
  const double quota = quota_cores();
  return std::max(1, quota > 0 ? std::min(cores, static_cast<int>(std::ceil(quota))) : cores);
}

}  // namespace sinew
