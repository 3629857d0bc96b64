#include "kernel_checks.hpp"

#include <fmt/format.h>

#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::doctor {
namespace {

std::string ranks_of(const JobShape& job) { return counted(static_cast<std::size_t>(job.ranks_here), "rank"); }

/// What Yama makes of a rank that reads its sibling; empty: allowed.
std::string forbidden_by(const HostLimits& host) {
  const int scope = host.ptrace_scope.value_or(0);
  if (scope == 0 || (scope <= 2 && host.may_trace)) return {};
  return fmt::format("kernel.yama.ptrace_scope is {}, expected 0", scope);
}

}  // namespace

Finding check_direct_reads(const HostLimits& host, const std::optional<std::string>& tried) {
  const std::string setting = forbidden_by(host);
  std::string reason = tried ? *tried : setting;
  if (reason.empty()) {
    return {Severity::Fine, "direct reads", tried ? "ranks of this host read each other's memory" : "not forbidden"};
  }
  std::string cure =
      "docker --cap-add SYS_PTRACE or a seccomp profile that allows process_vm_readv; all ranks of a host in "
      "one process-id namespace";
  if (!setting.empty()) {
    if (tried) reason += "; " + setting;
    cure = *host.ptrace_scope == 3 ? "restart the host with kernel.yama.ptrace_scope=0: 3 cannot be taken back"
                                   : "sysctl kernel.yama.ptrace_scope=0";
  }
  return {Severity::Warns, "direct reads",
          fmt::format("ranks of this host cannot read each other's memory, so shm copies messages twice: {}", reason),
          cure};
}

Finding check_congestion_control(const HostLimits& host, const JobShape& job) {
  if (job.hosts > 1 && host.congestion_control == "bbr") {
    return {Severity::Warns, "congestion control",
            "bbr: over a link behind a token bucket (a cloud's rate limit) it may reach half of what the link carries",
            "sysctl net.ipv4.tcp_congestion_control=cubic, or for one network: ip route change NETWORK dev DEVICE "
            "congctl cubic"};
  }
  return {Severity::Fine, "congestion control",
          host.congestion_control.empty() ? "cannot be read" : host.congestion_control};
}

Finding check_cores(const HostLimits& host, const JobShape& job) {
  const double quota = host.group_cpu ? host.group_cpu->cores : job.cores;
  if (quota < job.cores) {
    return {Severity::Warns, "cores",
            fmt::format("{} allows {:.3g} cores, the affinity of {} has {}: when the quota is used up all of them stop "
                        "until its next period",
                        host.group_cpu->where, quota, ranks_of(job), job.cores),
            "whole cores instead of a share: srun --cpus-per-task, docker --cpuset-cpus"};
  }
  if (job.ranks_here > job.cores) {
    return {Severity::Warns, "cores",
            fmt::format("{} for {}: waits sleep, and take tens of microseconds to end", job.cores, ranks_of(job)),
            "no more ranks than cores on a host"};
  }
  return {Severity::Fine, "cores", fmt::format("{} for {}", job.cores, ranks_of(job))};
}

}  // namespace sinew::doctor
