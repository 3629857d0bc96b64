#include "host_limits.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include <sinew/core/system/kernel_files.hpp>

namespace sinew::doctor {

using namespace kernel_files;

namespace {

namespace fs = std::filesystem;

constexpr unsigned kCapSysPtrace = 19;
constexpr std::uint64_t kKib = 1024;

std::optional<std::uint64_t> number_of(const std::string& word) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;  // "unlimited"
}

/// A line of /proc/self/limits: "Max open files            1024                 524288               files".
ProcessLimit limit_of(const std::vector<std::string>& lines, std::string_view label) {
  std::istringstream words(behind_label(lines, label));
  std::string soft;
  std::string hard;
  words >> soft >> hard;
  return {number_of(soft), number_of(hard)};
}

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t")); }

/// Threads of all processes of a user.
std::uint64_t tasks_of(const std::string& user, const fs::path& proc) {
  std::uint64_t count = 0;
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, absent)) {
    if (!number_of(entry.path().filename())) continue;
    const auto status = lines_in(entry.path() / "status");
    if (first_word(behind_label(status, "Uid:")) != user) continue;
    count += number_of(behind_label(status, "Threads:")).value_or(0);
  }
  return count;
}

bool has_capability(const std::string& mask, unsigned capability) {
  std::uint64_t bits = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
  return (bits >> capability & 1) != 0;
}

}  // namespace

HostLimits read_host_limits(const fs::path& root) {
  HostLimits host;
  const Cgroups groups(root);
  host.group_memory = groups.memory();
  host.group_swap = groups.swap();
  host.group_tasks = groups.tasks();
  host.group_cpu = groups.cpu();
  const fs::path memory = root / "proc/meminfo";
  host.memory_bytes = labelled(memory, "MemTotal:").value_or(0) * kKib;
  host.available_bytes = labelled(memory, "MemAvailable:").value_or(0) * kKib;
  host.swap_bytes = labelled(memory, "SwapFree:").value_or(0) * kKib;
  host.huge_bytes = labelled(memory, "Hugetlb:").value_or(0) * kKib;
  host.commit_bytes = labelled(memory, "CommitLimit:").value_or(0) * kKib;
  host.committed_bytes = labelled(memory, "Committed_AS:").value_or(0) * kKib;
  host.overcommit = static_cast<int>(number_in(root / "proc/sys/vm/overcommit_memory").value_or(0));
  const auto limits = lines_in(root / "proc/self/limits");
  host.descriptors = limit_of(limits, "Max open files");
  host.tasks = limit_of(limits, "Max processes");
  host.address_space = limit_of(limits, "Max address space");
  host.locked_bytes = limit_of(limits, "Max locked memory");
  const auto status = lines_in(root / "proc/self/status");
  const std::string user = first_word(behind_label(status, "Uid:"));
  host.is_root = user == "0";
  if (host.tasks.soft && !host.is_root) host.user_tasks = tasks_of(user, root / "proc");
  host.may_trace = has_capability(behind_label(status, "CapEff:"), kCapSysPtrace);
  if (const auto scope = number_in(root / "proc/sys/kernel/yama/ptrace_scope")) {
    host.ptrace_scope = static_cast<int>(*scope);
  }
  host.huge_pages = chosen_in(root / "sys/kernel/mm/transparent_hugepage/enabled");
  host.shared_huge_pages = chosen_in(root / "sys/kernel/mm/transparent_hugepage/shmem_enabled");
  host.congestion_control = chosen_in(root / "proc/sys/net/ipv4/tcp_congestion_control");
  std::error_code absent;
  host.rdma = fs::exists(root / "sys/class/infiniband", absent) && !fs::is_empty(root / "sys/class/infiniband", absent);
  return host;
}

}  // namespace sinew::doctor
