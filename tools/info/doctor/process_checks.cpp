#include "process_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/descriptor_exchange.hpp>
#include <sinew/topology/part_text.hpp>

namespace sinew::doctor {
namespace {

/// Standard streams, the store, event queues, libraries and files of the program.
constexpr std::uint64_t kOwnDescriptors = 64;
/// Of a rank, beside its main one: control, progress, and those of UCX, libfabric or NCCL.
constexpr std::uint64_t kThreads = 4;
/// RDMA registers its buffers; less than this is gone with the first of them.
constexpr std::uint64_t kLeastLocked = std::uint64_t{1} << 30;

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
  if (!host.descriptors.soft) return {Severity::Fine, "descriptors", fmt::format("unlimited; a rank needs {}", needed)};
  const std::uint64_t most = *host.descriptors.soft;
  if (most >= needed) return {Severity::Fine, "descriptors", fmt::format("{} for each rank, {} needed", most, needed)};
  const bool raisable = !host.descriptors.hard || *host.descriptors.hard >= needed;
  return {Severity::Fails, "descriptors", fmt::format("{} for each rank (ulimit -n), {} needed", most, needed),
          raisable ? fmt::format("ulimit -n {} before the job starts", needed)
                   : fmt::format("the hard limit is {}: nofile in /etc/security/limits.conf, or LimitNOFILE= of the "
                                 "service that starts the job",
                                 *host.descriptors.hard)};
}

Finding check_tasks(const HostLimits& host, const JobShape& job) {
  const std::uint64_t needed = kThreads * static_cast<std::uint64_t>(job.ranks_here);
  if (const auto& group = host.group_tasks; group && group->left() < needed) {
    return {
        Severity::Fails, "processes",
        fmt::format("{} allows {}, {} run; the ranks of this host will start {} threads", group->where, group->most,
                    group->used, needed),
        "ask the batch system or the container's runtime for more (TasksMax=, docker --pids-limit), or run fewer ranks "
        "on this host"};
  }
  if (!host.is_root && host.tasks.soft && *host.tasks.soft < host.user_tasks + needed) {
    return {Severity::Fails, "processes",
            fmt::format("{} for this user (ulimit -u), {} run; the ranks of this host will start {} threads",
                        *host.tasks.soft, host.user_tasks, needed),
            "nproc in /etc/security/limits.conf, or LimitNPROC= of the service that starts the job"};
  }
  return {Severity::Fine, "processes",
          host.group_tasks ? fmt::format("{} more allowed by {}, {} threads to come", host.group_tasks->left(),
                                         host.group_tasks->where, needed)
                           : fmt::format("no control group limits them, {} threads to come", needed)};
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
