#include "process_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/host/descriptor_exchange.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew::doctor {
namespace {

/// Standard streams, the store, event queues, libraries and files of the program.
constexpr std::uint64_t kOwnDescriptors = 64;
/// Of a rank, beside its main one: control, progress, and those of UCX, libfabric or NCCL.
constexpr std::uint64_t kThreads = 4;
/// The one of this program that serves the links' probes: it ends before a job's ranks would start theirs.
constexpr std::uint64_t kOwnThreads = 1;
/// RDMA registers its buffers; less than this is gone with the first of them.
constexpr std::uint64_t kLeastLocked = std::uint64_t{1} << 30;

/// The descriptors that a rank needs at least for each other rank of its host, when ranks find each other by name.
std::uint64_t descriptors_to_meet(const JobShape& job) noexcept {
  return job.ranks_here < 2 ? 0 : static_cast<std::uint64_t>(job.ranks_here);
}

/// Of the threads that the ranks of a host may start: `left` may still start.
Severity severity_of(std::uint64_t left, const JobShape& job) noexcept {
  const auto here = static_cast<std::uint64_t>(job.ranks_here);
  if (left >= kThreads * here) return Severity::Fine;
  return job.ranks > 1 && left + kOwnThreads < here ? Severity::Fails : Severity::Warns;
}

}  // namespace

std::uint64_t descriptors_needed(const JobShape& job) noexcept {
  const auto here = static_cast<std::uint64_t>(job.ranks_here);
  const auto elsewhere = static_cast<std::uint64_t>(job.ranks - job.ranks_here);
  const auto hosts = static_cast<std::uint64_t>(job.hosts);
  const auto per_peer = 1 + static_cast<std::uint64_t>(std::max(1, job.networks));
  return kOwnDescriptors + (kDescriptorsPerRank + 1) * here + per_peer * elsewhere + hosts +
         static_cast<std::uint64_t>(job.ranks);  // rank 0 may serve the store
}

Finding check_descriptors(const HostLimits& host, const JobShape& job) {
  const std::uint64_t needed = descriptors_needed(job);
  if (!host.descriptors.soft)
    return {Severity::Fine, "descriptors", fmt::format("unlimited; a rank needs {} at most", needed)};
  const std::uint64_t most = *host.descriptors.soft;
  if (most >= needed) {
    return {Severity::Fine, "descriptors", fmt::format("{} for each rank, which needs {} at most", most, needed)};
  }
  const bool raisable = !host.descriptors.hard || *host.descriptors.hard >= needed;
  const std::uint64_t to_meet = descriptors_to_meet(job);
  const bool is_sure = most <= to_meet;
  return {is_sure ? Severity::Fails : Severity::Warns, "descriptors",
          is_sure ? fmt::format("{} for each rank (ulimit -n), {} needed for the ranks of this host to meet, and those "
                                "it has",
                                most, to_meet)
                  : fmt::format("{} for each rank (ulimit -n), which may need {}", most, needed),
          raisable ? fmt::format("ulimit -n {} before the job starts", needed)
                   : fmt::format("the hard limit is {}: nofile in /etc/security/limits.conf, or LimitNOFILE= of the "
                                 "service that starts the job",
                                 *host.descriptors.hard)};
}

Finding check_tasks(const HostLimits& host, const JobShape& job) {
  const std::uint64_t needed = kThreads * static_cast<std::uint64_t>(job.ranks_here);
  Finding worst{Severity::Fine, "processes",
                host.group_tasks ? fmt::format("{} more allowed by {}, {} threads to come at most",
                                               host.group_tasks->left(), host.group_tasks->where, needed)
                                 : fmt::format("no control group limits them, {} threads to come at most", needed)};
  if (const auto& group = host.group_tasks; group && group->left() < needed) {
    worst.severity = severity_of(group->left(), job);
    worst.found = fmt::format("{} allows {}, {} run; the ranks of this host may start {} threads", group->where,
                              group->most, group->used, needed);
    worst.cure =
        "ask the batch system or the container's runtime for more (TasksMax=, docker --pids-limit), or run fewer ranks "
        "on this host";
  }
  if (host.is_root || !host.tasks.soft) return worst;
  const CgroupRoom user{*host.tasks.soft, host.user_tasks, {}};
  if (const Severity severity = severity_of(user.left(), job); severity > worst.severity) {
    worst.severity = severity;
    worst.found = fmt::format("{} for this user (ulimit -u), {} run; the ranks of this host may start {} threads",
                              user.most, user.used, needed);
    worst.cure = "nproc in /etc/security/limits.conf, or LimitNPROC= of the service that starts the job";
  }
  return worst;
}

std::vector<Finding> check_mappings(const HostLimits& host) {
  std::vector<Finding> found;
  if (const auto& most = host.address_space.soft) {
    found.push_back({Severity::Warns, "address space",
                     fmt::format("limited to {} for each rank (ulimit -v), of which shared memory takes a half at most",
                                 binary_text(*most)),
                     "ulimit -v unlimited: memory that is mapped is not yet taken"});
  }
  if (const auto& most = host.locked_bytes.soft; most && host.rdma && *most < kLeastLocked) {
    found.push_back(
        {Severity::Warns, "locked memory",
         fmt::format("{} for each rank (ulimit -l), and RDMA locks every buffer that it uses", binary_text(*most)),
         "memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity of the service that starts the job"});
  }
  return found;
}

}  // namespace sinew::doctor
