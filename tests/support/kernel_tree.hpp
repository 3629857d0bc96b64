#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <support/scratch_folder.hpp>

namespace sinew::test {

/// A root folder with files of the kernel's as a test writes them, gone at the end of this object.
class KernelTree {
 public:
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::filesystem::path root() const { return folder_ / "root"; }
  std::string at(const std::string& path) const { return (root() / path).string(); }

 private:
  ScratchFolder folder_;
};

/// A job of Slurm's on a host with control groups of version 2: the step has no limits, the job above it has. Of
/// memory the job leaves 8 - (5 - 2) = 5 GiB, and the slice above it 100 - 98.
inline void record_slurm_step(const KernelTree& tree) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  tree.put("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0");
  tree.put("proc/self/mountinfo",
           "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
           "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate");
  const std::string job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/";
  tree.put(job + "step_0/memory.max", "max");
  tree.put(job + "step_0/pids.max", "max");
  tree.put(job + "step_0/cpu.max", "max 100000");
  tree.put(job + "memory.max", std::to_string(8 * kGiB));
  tree.put(job + "memory.current", std::to_string(5 * kGiB));
  tree.put(job + "memory.stat", "anon 1\ninactive_anon 7\ninactive_file " + std::to_string(2 * kGiB));
  tree.put(job + "cpu.max", "250000 100000");
  tree.put("sys/fs/cgroup/system.slice/memory.max", std::to_string(100 * kGiB));
  tree.put("sys/fs/cgroup/system.slice/memory.current", std::to_string(98 * kGiB));
  tree.put(job + "memory.swap.max", "1000");
  tree.put(job + "memory.swap.current", "400");
  tree.put("sys/fs/cgroup/system.slice/memory.swap.max", "max");
  tree.put("sys/fs/cgroup/system.slice/pids.max", "4915");
  tree.put("sys/fs/cgroup/system.slice/pids.current", "115");
}

}  // namespace sinew::test
