#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <sinew/core/host/cgroups.hpp>

namespace sinew::doctor {

/// A limit of setrlimit. nullopt: unlimited, or unknown.
struct ProcessLimit {
  std::optional<std::uint64_t> soft;
  std::optional<std::uint64_t> hard;
  friend bool operator==(const ProcessLimit&, const ProcessLimit&) = default;
};

/// What a host grants to this process, as the kernel's files say. 0 and empty: the files do not say it.
struct HostLimits {
  std::optional<CgroupRoom> group_memory;
  std::optional<CgroupRoom> group_swap;
  std::optional<CgroupRoom> group_tasks;
  std::optional<CpuQuota> group_cpu;
  std::uint64_t memory_bytes = 0;     ///< of the machine
  std::uint64_t available_bytes = 0;  ///< of those, without swapping
  std::uint64_t swap_bytes = 0;       ///< free, of swap space
  std::uint64_t huge_bytes = 0;       ///< reserved as huge pages, which sinew does not take
  std::uint64_t commit_bytes = 0;     ///< that may be promised in all
  std::uint64_t committed_bytes = 0;
  int overcommit = 0;  ///< vm.overcommit_memory; 2: no more than commit_bytes
  ProcessLimit descriptors;
  ProcessLimit tasks;            ///< of the user
  std::uint64_t user_tasks = 0;  ///< that count against it, as far as they can be seen
  ProcessLimit address_space;
  ProcessLimit locked_bytes;
  bool is_root = false;             ///< whom `tasks` does not bind
  std::optional<int> ptrace_scope;  ///< nullopt: no Yama
  bool may_trace = false;           ///< CAP_SYS_PTRACE
  std::string huge_pages;           ///< transparent ones: "always", "madvise", "never"
  std::string shared_huge_pages;    ///< of them for shared memory: "always", "within_size", "advise", "never"
  std::string congestion_control;   ///< of TCP
  bool rdma = false;                ///< there are RDMA devices
};

/// `root`: "/", or a recorded tree of that shape.
HostLimits read_host_limits(const std::filesystem::path& root);

}  // namespace sinew::doctor
