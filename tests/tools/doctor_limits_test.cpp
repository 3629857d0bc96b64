#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include <support/scratch_folder.hpp>

#include "../../tools/info/doctor/host_limits.hpp"

namespace sinew::doctor {
namespace {

/// A recorded root folder.
class Tree {
 public:
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::filesystem::path root() const { return folder_ / "root"; }
  std::string at(const std::string& path) const { return (root() / path).string(); }

 private:
  test::ScratchFolder folder_;
};

constexpr std::uint64_t kOneGiB = std::uint64_t{1} << 30;

/// A job of Slurm's on a host with control groups of version 2: the step has no limits, the job above it has.
void record_unified(const Tree& tree) {
  tree.put("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0");
  tree.put("proc/self/mountinfo",
           "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
           "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate");
  const std::string job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/";
  tree.put(job + "step_0/memory.max", "max");
  tree.put(job + "step_0/pids.max", "max");
  tree.put(job + "step_0/cpu.max", "max 100000");
  tree.put(job + "memory.max", std::to_string(8 * kOneGiB));
  tree.put(job + "memory.current", std::to_string(5 * kOneGiB));
  tree.put(job + "memory.stat", "anon 1\ninactive_anon 7\ninactive_file " + std::to_string(2 * kOneGiB));
  tree.put(job + "cpu.max", "250000 100000");
  tree.put("sys/fs/cgroup/system.slice/memory.max", std::to_string(100 * kOneGiB));
  tree.put("sys/fs/cgroup/system.slice/memory.current", std::to_string(98 * kOneGiB));
  tree.put(job + "memory.swap.max", "1000");
  tree.put(job + "memory.swap.current", "400");
  tree.put("sys/fs/cgroup/system.slice/memory.swap.max", "max");
  tree.put("sys/fs/cgroup/system.slice/pids.max", "4915");
  tree.put("sys/fs/cgroup/system.slice/pids.current", "115");
}

TEST(DoctorCgroups, TakeTheLevelThatLeavesLeast_OfVersion2) {
  const Tree tree;
  record_unified(tree);
  const Cgroups groups(tree.root());
  // The job has 8 - (5 - 2) = 5 GiB left, the slice above it 100 - 98.
  EXPECT_EQ(groups.memory(), (Room{100 * kOneGiB, 98 * kOneGiB, tree.at("sys/fs/cgroup/system.slice/memory.max")}));
  tree.put("sys/fs/cgroup/system.slice/memory.current", std::to_string(10 * kOneGiB));
  const auto of_job = Cgroups(tree.root()).memory();
  ASSERT_TRUE(of_job.has_value());
  EXPECT_EQ(of_job->left(), 5 * kOneGiB) << "files that nobody has used lately are given back";
  EXPECT_EQ(groups.swap()->left(), 600u);
  EXPECT_EQ(groups.tasks(), (Room{4915, 115, tree.at("sys/fs/cgroup/system.slice/pids.max")}));
  ASSERT_TRUE(groups.cpu().has_value());
  EXPECT_DOUBLE_EQ(groups.cpu()->cores, 2.5);
}

/// A container of Docker's with control groups of version 1: its own group is what is mounted.
void record_version1(const Tree& tree) {
  tree.put("proc/self/cgroup",
           "12:pids:/docker/ab\n5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n1:name=systemd:/docker/ab\n0::/");
  tree.put("proc/self/mountinfo",
           "40 30 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
           "41 30 0:31 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
           "42 30 0:32 /docker/ab /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids");
  tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kOneGiB));
  tree.put("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kOneGiB));
  tree.put("sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 0");
  tree.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  tree.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  tree.put("sys/fs/cgroup/pids/pids.max", "100");
  tree.put("sys/fs/cgroup/pids/pids.current", "98");
}

TEST(DoctorCgroups, ReadVersion1_WhereAContainerSeesItsOwnGroupOnly) {
  const Tree tree;
  record_version1(tree);
  const Cgroups groups(tree.root());
  EXPECT_EQ(groups.memory(), (Room{2 * kOneGiB, kOneGiB, tree.at("sys/fs/cgroup/memory/memory.limit_in_bytes")}));
  EXPECT_FALSE(groups.swap().has_value()) << "limited with memory, if at all";
  EXPECT_EQ(groups.tasks()->left(), 2u);
  ASSERT_TRUE(groups.cpu().has_value());
  EXPECT_DOUBLE_EQ(groups.cpu()->cores, 1.5);
}

TEST(DoctorCgroups, KnowNoLimit_WhereThereIsNone) {
  const Tree tree;
  record_version1(tree);
  tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  tree.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  tree.put("sys/fs/cgroup/pids/pids.max", "max");
  const Cgroups groups(tree.root());
  EXPECT_FALSE(groups.memory().has_value());
  EXPECT_FALSE(groups.cpu().has_value());
  EXPECT_FALSE(groups.tasks().has_value());
  const Cgroups nothing(tree.root() / "nowhere");
  EXPECT_FALSE(nothing.memory().has_value());
  EXPECT_FALSE(nothing.cpu().has_value());
}

TEST(DoctorCgroups, LookAtTheTop_WhereTheGroupIsOutsideOfWhatIsMounted) {
  const Tree tree;
  tree.put("proc/self/cgroup", "0::/../../other");
  tree.put("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  tree.put("sys/fs/cgroup/pids.max", "50");
  tree.put("sys/fs/cgroup/pids.current", "8");
  tree.put("other/pids.max", "1");
  EXPECT_EQ(Cgroups(tree.root()).tasks()->left(), 42u);
}

TEST(DoctorHostLimits, AreReadFromTheKernelsFiles) {
  const Tree tree;
  record_unified(tree);
  tree.put("proc/meminfo",
           "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\nCommitLimit:  4096 kB\n"
           "Committed_AS:  1024 kB\nHugetlb:  2048 kB\nSwapTotal: 4 kB\nSwapFree: 3 kB");
  tree.put("proc/self/limits",
           "Limit                     Soft Limit           Hard Limit           Units     \n"
           "Max locked memory         65536                unlimited            bytes     \n"
           "Max processes             127                  128                  processes \n"
           "Max open files            1024                 524288               files     \n"
           "Max address space         unlimited            unlimited            bytes     ");
  tree.put("proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000080000");
  tree.put("proc/7/status", "Name:\ta\nUid:\t1000\t1000\t1000\t1000\nThreads:\t5");
  tree.put("proc/8/status", "Name:\tb\nUid:\t1000\t1000\t1000\t1000\nThreads:\t1");
  tree.put("proc/9/status", "Name:\tc\nUid:\t10000\t1000\t1000\t1000\nThreads:\t70");
  tree.put("proc/sys/kernel/yama/ptrace_scope", "1");
  tree.put("proc/sys/vm/overcommit_memory", "2");
  tree.put("proc/sys/net/ipv4/tcp_congestion_control", "bbr");
  tree.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  tree.put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force");
  tree.put("sys/class/infiniband/mlx5_0/node_type", "1: CA");
  const HostLimits host = read_host_limits(tree.root());
  EXPECT_EQ(host.memory_bytes, 16384u * 1024);
  EXPECT_EQ(host.available_bytes, 8192u * 1024);
  EXPECT_EQ(host.commit_bytes, 4096u * 1024);
  EXPECT_EQ(host.committed_bytes, 1024u * 1024);
  EXPECT_EQ(host.huge_bytes, 2048u * 1024);
  EXPECT_EQ(host.swap_bytes, 3u * 1024);
  EXPECT_EQ(host.group_swap->most, 1000u);
  EXPECT_EQ(host.descriptors, (ProcessLimit{1024, 524288}));
  EXPECT_EQ(host.tasks, (ProcessLimit{127, 128}));
  EXPECT_EQ(host.user_tasks, 6u) << "of this user, and no link to oneself twice";
  EXPECT_EQ(host.locked_bytes, (ProcessLimit{65536, std::nullopt}));
  EXPECT_EQ(host.address_space, ProcessLimit{});
  EXPECT_FALSE(host.is_root);
  EXPECT_TRUE(host.may_trace);
  EXPECT_EQ(host.ptrace_scope, 1);
  EXPECT_EQ(host.overcommit, 2);
  EXPECT_EQ(host.congestion_control, "bbr");
  EXPECT_EQ(host.huge_pages, "madvise");
  EXPECT_EQ(host.shared_huge_pages, "advise");
  EXPECT_TRUE(host.rdma);
  EXPECT_EQ(host.group_cpu->cores, 2.5);
}

TEST(DoctorHostLimits, StayUnknown_WhereNothingCanBeRead) {
  const HostLimits host = read_host_limits("/nowhere");
  EXPECT_EQ(host.memory_bytes, 0u);
  EXPECT_EQ(host.ptrace_scope, std::nullopt);
  EXPECT_EQ(host.descriptors, ProcessLimit{});
  EXPECT_FALSE(host.rdma || host.may_trace || host.is_root);
}

}  // namespace
}  // namespace sinew::doctor
