#include "memory_checks.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::doctor {
namespace {

/// What memory is left by one limit, and what makes it more.
struct Left {
  std::uint64_t bytes = 0;
  std::uint64_t swap_bytes = 0;  ///< that take what is more
  std::string why;
  std::string cure;
};

std::vector<Left> all_limits(const HostLimits& host) {
  std::vector<Left> all;
  if (host.available_bytes > 0) {
    all.push_back({host.available_bytes, host.swap_bytes,
                   fmt::format("the machine has {} in all", binary_text(host.memory_bytes)),
                   "run fewer ranks on this host, or end what takes its memory"});
  }
  if (const auto& group = host.group_memory) {
    all.push_back(
        {group->left(), std::min(host.swap_bytes, host.group_swap ? host.group_swap->left() : host.swap_bytes),
         fmt::format("{} is {}, {} are taken", group->where, binary_text(group->most), binary_text(group->used)),
         "ask the batch system or the container's runtime for more memory (srun --mem, docker --memory), or run "
         "fewer ranks on this host"});
  }
  constexpr int kStrict = 2;
  if (host.overcommit == kStrict) {
    all.push_back({host.commit_bytes - std::min(host.commit_bytes, host.committed_bytes), 0,
                   fmt::format("vm.overcommit_memory=2: {} may be promised, {} are", binary_text(host.commit_bytes),
                               binary_text(host.committed_bytes)),
                   "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"});
  }
  return all;
}

/// The largest number where the product is larger still.
std::uint64_t times(std::uint64_t bytes, std::uint64_t ranks) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return ranks != 0 && bytes > kMost / ranks ? kMost : bytes * ranks;
}

}  // namespace

Finding check_memory(const HostLimits& host, const JobShape& job) {
  const std::vector<Left> all = all_limits(host);
  if (all.empty()) return {Severity::Warns, "memory", "how much is left cannot be read", "mount /proc"};
  const std::uint64_t needed = times(job.rank_bytes.value_or(kRankBytes), static_cast<std::uint64_t>(job.ranks_here));
  const auto severity = [&](const Left& left) {
    if (left.bytes >= needed) return Severity::Fine;
    return !job.rank_bytes || needed - left.bytes <= left.swap_bytes ? Severity::Warns : Severity::Fails;
  };
  const Left& worst = *std::ranges::max_element(all, [&](const Left& a, const Left& b) {
    return std::tuple(severity(a), b.bytes) < std::tuple(severity(b), a.bytes);
  });
  const std::string left = fmt::format("{} left for {}, ", binary_text(worst.bytes),
                                       counted(static_cast<std::size_t>(job.ranks_here), "rank"));
  const std::string need = fmt::format("{} needed{}", binary_text(needed), job.rank_bytes ? "" : " as a guess");
  const bool enough = severity(worst) == Severity::Fine;
  const std::string swap =
      enough || worst.swap_bytes == 0 ? "" : fmt::format("; {} of swap space take more", binary_text(worst.swap_bytes));
  return {severity(worst), "memory", fmt::format("{}{} ({}{})", left, need, worst.why, swap), enough ? "" : worst.cure};
}

Finding check_huge_pages(const HostLimits& host) {
  if (host.huge_bytes > host.memory_bytes / 4) {
    return {Severity::Warns, "huge pages",
            fmt::format("{} of {} are reserved as huge pages, which sinew does not take", binary_text(host.huge_bytes),
                        binary_text(host.memory_bytes)),
            "a smaller vm.nr_hugepages, unless something else needs them"};
  }
  if (host.huge_pages == "never") {
    return {Severity::Warns, "huge pages",
            "transparent ones are switched off: large buffers cost more address translations",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
  }
  std::string found = "transparent ones: " + (host.huge_pages.empty() ? "not in this kernel" : host.huge_pages);
  if (!host.shared_huge_pages.empty()) found += "; for shared memory: " + host.shared_huge_pages;
  return {Severity::Fine, "huge pages", found};
}

}  // namespace sinew::doctor
