#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// A limit of a control group and how much of it is used.
struct CgroupRoom {
  std::uint64_t most = 0;
  std::uint64_t used = 0;
  std::string where;  ///< the file that sets the limit
  std::uint64_t left() const noexcept { return used < most ? most - used : 0; }
  friend bool operator==(const CgroupRoom&, const CgroupRoom&) = default;
};

/// CPU time that a control group grants to all its processes together.
/// Units: cores' worth, 1.5 for 150 ms in each 100 ms.
struct CpuQuota {
  double cores = 0;
  std::string where;  ///< the file that sets the quota
  friend bool operator==(const CpuQuota&, const CpuQuota&) = default;
};

/// The limits of this process's control groups, version 1 or 2. The kernel enforces the limits of a group and of every
/// group above it, so each answer is of the level that leaves least. Where a container hides the upper levels, only
/// those that are mounted count. nullopt: there is no limit.
class SINEW_API Cgroups {
 public:
  /// Finds the groups by /proc/self/cgroup and /proc/self/mountinfo below `root`: "/", or a recorded tree.
  /// Cost: reads both files; in a cgroup namespace that was entered without mounting anew, searches folders, too.
  explicit Cgroups(std::filesystem::path root);

  /// Bytes. Files that nobody has used lately do not count as used: the kernel would give them back at once.
  std::optional<CgroupRoom> memory() const;
  /// Bytes of swap space. Version 1 limits it together with memory, so there the answer is always nullopt.
  std::optional<CgroupRoom> swap() const;
  /// Processes and threads.
  std::optional<CgroupRoom> tasks() const;
  std::optional<CpuQuota> cpu() const;

 private:
  struct Hierarchy {
    std::string controllers;                     ///< "cpu,cpuacct"; version 2: empty
    std::vector<std::filesystem::path> folders;  ///< from this process's group upwards
  };
  struct Levels {
    std::vector<std::filesystem::path> folders;
    bool unified;  ///< they are of version 2
  };
  /// Of version 1 where that has the controller, else of version 2.
  Levels levels(std::string_view controller) const;

  std::vector<Hierarchy> hierarchies_;
};

}  // namespace sinew
