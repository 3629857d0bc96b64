#include <gtest/gtest.h>

#include <sinew/tools/info/doctor/local/host_limits.hpp>
#include <support/kernel_tree.hpp>

namespace sinew::doctor {
namespace {

TEST(DoctorHostLimits, AreReadFromTheKernelsFiles) {
  const test::KernelTree tree;
  test::record_slurm_step(tree);
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
