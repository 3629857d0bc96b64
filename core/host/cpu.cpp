#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <numeric>
#include <string>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cgroups.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/cpu_list.hpp>
#include <sinew/core/system/kernel_files.hpp>

namespace sinew {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

namespace {

std::vector<int> cpus_of_list(std::string_view list) {
  try {
    return parse_cpu_list(list);
  } catch (const Error&) {  // a kernel that writes something else
    return {};
  }
}

/// The affinity mask as /proc tells it, for where a sandbox refuses sched_getaffinity. Empty: /proc does not tell.
std::vector<int> affinity_by_proc() {
  using namespace kernel_files;
  const std::vector<int> allowed =
      cpus_of_list(behind_label(lines_in("/proc/thread-self/status"), "Cpus_allowed_list:"));
  const std::vector<std::string> online = lines_in("/sys/devices/system/cpu/online");
  std::vector<int> cpus;  // the mask may name CPUs that are not there
  if (!online.empty()) std::ranges::set_intersection(allowed, cpus_of_list(online.front()), std::back_inserter(cpus));
  return cpus;
}

}  // namespace

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
  if (!known) cpus = affinity_by_proc();
  if (cpus.empty()) {
    cpus.resize(static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
    std::iota(cpus.begin(), cpus.end(), 0);
  }
  return cpus;
}

double quota_cores() noexcept try {
  const auto quota = Cgroups("/").cpu();
  return quota ? quota->cores : 0;
} catch (const std::exception&) {  // no memory to read files with
  return 0;
}

void CoreCount::add(std::span<const int> cpus, double quota_cores) {
  cpus_.insert(cpus.begin(), cpus.end());
  if (quota_cores > 0) quota_ = quota_ > 0 ? std::min(quota_, quota_cores) : quota_cores;
}

int CoreCount::cores() const noexcept {
  const int all = std::max(1, static_cast<int>(cpus_.size()));
  return quota_ > 0 ? static_cast<int>(std::clamp(std::floor(quota_), 1.0, static_cast<double>(all))) : all;
}

int usable_cores() {
  CoreCount mine;
  mine.add(affinity_cpus(), quota_cores());
  return mine.cores();
}

}  // namespace sinew
