#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>

#include <sinew/core/cpu.hpp>

namespace sinew {

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
  bool known = false;
  for (int room = 1024; !known && room <= 1 << 20; room *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(room));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < room; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
  }
  if (!known) {
    cpus.resize(static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
    std::iota(cpus.begin(), cpus.end(), 0);
  }
  return cpus;
}

void CoreCount::add(std::span<const int> cpus, double quota_cores) {
  cpus_.insert(cpus.begin(), cpus.end());
  if (quota_cores > 0) quota_ = quota_ > 0 ? std::min(quota_, quota_cores) : quota_cores;
}

int CoreCount::cores() const noexcept {
  const int all = std::max(1, static_cast<int>(cpus_.size()));
  return quota_ > 0 ? std::clamp(static_cast<int>(std::ceil(quota_)), 1, all) : all;
}

int usable_cores() {
  CoreCount mine;
  mine.add(affinity_cpus(), quota_cores());
  return mine.cores();
}

}  // namespace sinew
