#include "memory_checks.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "amounts.hpp"

namespace sinew::doctor {
namespace {

/// What memory is left by one limit, and what makes it more.
struct Left {
  std::uint64_t bytes = 0;
  std::string why;
  std::string cure;
};

std::vector<Left> all_limits(const HostLimits& host) {
  std::vector<Left> all;
  const auto amount = [](std::uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  if (host.available_bytes > 0) {
    all.push_back({host.available_bytes, fmt::format("the machine has {} in all", amount(host.memory_bytes)),
                   "run fewer ranks on this host, or end what takes its memory"});
  }
  if (const auto& group = host.group_memory) {
    all.push_back(
        {group->left(), fmt::format("{} is {}, {} are taken", group->where, amount(group->most), amount(group->used)),
         "ask the batch system or the container's runtime for more memory (srun --mem, docker --memory), or run "
         "fewer ranks on this host"});
  }
  constexpr int kStrict = 2;
  if (host.overcommit == kStrict) {
    all.push_back({host.commit_bytes - std::min(host.commit_bytes, host.committed_bytes),
                   fmt::format("vm.overcommit_memory=2: {} may be promised, {} are", amount(host.commit_bytes),
                               amount(host.committed_bytes)),
                   "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"});
  }
  return all;
}

}  // namespace

Finding check_memory(const HostLimits& host, const JobShape& job) {
  const std::vector<Left> all = all_limits(host);
  if (all.empty()) return {Severity::Warns, "memory", "how much is left cannot be read", "mount /proc"};
  const Left& least = *std::ranges::min_element(all, {}, &Left::bytes);
  const double needed = static_cast<double>(job.rank_bytes) * job.ranks_here;
  const double left = static_cast<double>(least.bytes);
  const bool enough = left >= needed;
  return {enough ? Severity::Fine : Severity::Fails, "memory",
          fmt::format("{} left for {} rank{}, {} needed ({})", bytes_text(left), job.ranks_here,
                      job.ranks_here == 1 ? "" : "s", bytes_text(needed), least.why),
          enough ? "" : least.cure};
}

Finding check_huge_pages(const HostLimits& host) {
  const std::string transparent = host.huge_pages.empty() ? "not in this kernel" : host.huge_pages;
  if (host.huge_bytes > host.memory_bytes / 4) {
    return {Severity::Warns, "huge pages",
            fmt::format("{} of {} are reserved as huge pages, which sinew does not take",
                        bytes_text(static_cast<double>(host.huge_bytes)),
                        bytes_text(static_cast<double>(host.memory_bytes))),
            "a smaller vm.nr_hugepages, unless something else needs them"};
  }
  if (host.huge_pages == "never") {
    return {Severity::Warns, "huge pages",
            "transparent ones are switched off: large buffers cost more address translations",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  return {Severity::Fine, "huge pages", "transparent ones: " + transparent};
}

}  // namespace sinew::doctor
