#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/host/cgroups.hpp>
#include <sinew/core/host/cpu.hpp>
#include <support/asked_in_child.hpp>
#include <support/kernel_tree.hpp>
#include <support/real_cgroup.hpp>

namespace sinew {
namespace {

using test::KernelTree;
using test::RealCgroup;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr const char* kUnifiedMount = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";

TEST(Cgroups, TakeTheLevelThatLeavesLeast_OfVersion2) {
  const KernelTree tree;
  test::record_slurm_step(tree);
  const Cgroups groups(tree.root());
  EXPECT_EQ(groups.memory(), (CgroupRoom{100 * kGiB, 98 * kGiB, tree.at("sys/fs/cgroup/system.slice/memory.max")}));
  tree.put("sys/fs/cgroup/system.slice/memory.current", std::to_string(10 * kGiB));
  const auto of_job = Cgroups(tree.root()).memory();
  ASSERT_TRUE(of_job.has_value());
  EXPECT_EQ(of_job->left(), 5 * kGiB) << "files that nobody has used lately are given back";
  EXPECT_EQ(groups.swap()->left(), 600u);
  EXPECT_EQ(groups.tasks(), (CgroupRoom{4915, 115, tree.at("sys/fs/cgroup/system.slice/pids.max")}));
  EXPECT_EQ(groups.cpu(), (CpuQuota{2.5, tree.at("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/cpu.max")}));
}

TEST(Cgroups, TakeTheLeastQuota_OfNestedGroups) {
  const KernelTree tree;
  test::record_slurm_step(tree);
  const std::string job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/";
  tree.put(job + "step_0/cpu.max", "150000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1.5, tree.at(job + "step_0/cpu.max")}));
  tree.put("sys/fs/cgroup/system.slice/cpu.max", "10000 20000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{0.5, tree.at("sys/fs/cgroup/system.slice/cpu.max")}));
}

/// A container of Docker's with control groups of version 1: its own group is what is mounted.
void record_version1(const KernelTree& tree) {
  tree.put("proc/self/cgroup",
           "12:pids:/docker/ab\n5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n1:name=systemd:/docker/ab\n0::/");
  tree.put("proc/self/mountinfo",
           "40 30 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
           "41 30 0:31 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
           "42 30 0:32 /docker/ab /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids");
  tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB));
  tree.put("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB));
  tree.put("sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 0");
  tree.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  tree.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  tree.put("sys/fs/cgroup/pids/pids.max", "100");
  tree.put("sys/fs/cgroup/pids/pids.current", "98");
}

TEST(Cgroups, ReadVersion1_WhereAContainerSeesItsOwnGroupOnly) {
  const KernelTree tree;
  record_version1(tree);
  const Cgroups groups(tree.root());
  EXPECT_EQ(groups.memory(), (CgroupRoom{2 * kGiB, kGiB, tree.at("sys/fs/cgroup/memory/memory.limit_in_bytes")}));
  EXPECT_FALSE(groups.swap().has_value()) << "limited with memory, if at all";
  EXPECT_EQ(groups.tasks()->left(), 2u);
  EXPECT_EQ(groups.cpu(), (CpuQuota{1.5, tree.at("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")}));
}

TEST(Cgroups, ReadVersion1_BelowTheGroupThatIsMounted) {
  const KernelTree tree;
  record_version1(tree);
  tree.put("proc/self/cgroup", "5:cpu,cpuacct:/docker/ab/outer/inner\n0::/");
  const std::string outer = "sys/fs/cgroup/cpu,cpuacct/outer/";
  tree.put(outer + "cpu.cfs_quota_us", "50000");
  tree.put(outer + "cpu.cfs_period_us", "50000");
  tree.put(outer + "inner/cpu.cfs_quota_us", "-1");
  tree.put(outer + "inner/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1, tree.at(outer + "cpu.cfs_quota_us")}));
}

TEST(Cgroups, KnowNoLimit_WhereThereIsNone) {
  const KernelTree tree;
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

TEST(Cgroups, LookAtTheTop_WhereTheGroupIsOutsideOfWhatIsMounted) {
  const KernelTree tree;
  tree.put("proc/self/cgroup", "0::/../../other");
  tree.put("proc/self/mountinfo", kUnifiedMount);
  tree.put("sys/fs/cgroup/pids.max", "50");
  tree.put("sys/fs/cgroup/pids.current", "8");
  tree.put("other/pids.max", "1");
  EXPECT_EQ(Cgroups(tree.root()).tasks()->left(), 42u);
}

TEST(Cgroups, TellAGroupFromAnotherWhoseNameBeginsAlike) {
  const KernelTree tree;
  tree.put("proc/self/cgroup", "0::/pod/abc");
  tree.put("proc/self/mountinfo",
           "30 24 0:26 /pod/ab /other rw - cgroup2 cgroup2 rw\n31 24 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  tree.put("other/c/cpu.max", "10000 100000");
  tree.put("other/cpu.max", "10000 100000");
  tree.put("sys/fs/cgroup/abc/cpu.max", "200000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{2, tree.at("sys/fs/cgroup/abc/cpu.max")}));
}

TEST(Cgroups, CountEveryMountThatShowsALevel) {
  const KernelTree tree;
  tree.put("proc/self/cgroup", "0::/pod/ab/in");
  tree.put("proc/self/mountinfo",
           "30 24 0:26 /pod/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 24 0:26 / /host/cgroup ro - cgroup2 c rw");
  tree.put("sys/fs/cgroup/cpu.max", "200000 100000");
  tree.put("host/cgroup/pod/cpu.max", "100000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1, tree.at("host/cgroup/pod/cpu.max")}));
}

/// systemd writes a dash within a unit's name as \x2d, and mountinfo writes the backslash as \134.
TEST(Cgroups, UnderstandNamesThatMountinfoEscapes) {
  const KernelTree tree;
  tree.put("proc/self/cgroup", "0::/a\\x2db.slice/in");
  tree.put("proc/self/mountinfo", "30 24 0:26 /a\\134x2db.slice /my\\040groups rw - cgroup2 cgroup2 rw");
  tree.put("my groups/in/cpu.max", "150000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1.5, tree.at("my groups/in/cpu.max")}));
}

/// unshare --cgroup without a new mount: what is mounted begins above the namespace, and names are not told.
TEST(Cgroups, FindTheGroupByItsProcesses_WhereANamespaceHidesItsName) {
  const KernelTree tree;
  tree.put("proc/self/cgroup", "0::/in");
  tree.put("proc/self/status", "Name:\tx\nPid:\t71");
  tree.put("proc/self/mountinfo", "30 24 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  for (const char* group : {"a/b", "a/c", "d/e"}) {
    tree.put(fmt::format("sys/fs/cgroup/{}/in/cgroup.procs", group), group == std::string("a/c") ? "7\n71" : "710");
    tree.put(fmt::format("sys/fs/cgroup/{}/cpu.max", group), "10000 100000");
  }
  tree.put("sys/fs/cgroup/a/c/cpu.max", "150000 100000");
  tree.put("sys/fs/cgroup/a/c/in/cpu.max", "180000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1.5, tree.at("sys/fs/cgroup/a/c/cpu.max")}));
  tree.put("sys/fs/cgroup/a/cpu.max", "120000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{1.2, tree.at("sys/fs/cgroup/a/cpu.max")}));
  tree.put("proc/self/cgroup", "0::/../x");
  tree.put("sys/fs/cgroup/d/x/cgroup.procs", "71");
  tree.put("sys/fs/cgroup/d/x/cpu.max", "70000 100000");
  EXPECT_EQ(Cgroups(tree.root()).cpu(), (CpuQuota{0.7, tree.at("sys/fs/cgroup/d/x/cpu.max")}));
}

/// What a process in the group sees: the quota, where it is set, and how many cores sinew counts.
std::string seen_in(const RealCgroup& group, bool own_namespace) {
  return test::asked_in_child([&]() -> std::string {
    group.enter();
    if (own_namespace && ::unshare(CLONE_NEWCGROUP) != 0) return "no cgroup namespace";
    const auto quota = Cgroups("/").cpu();
    return quota ? fmt::format("{} {} {}", quota->cores, quota->where, usable_cores()) : "no quota";
  });
}

TEST(RealCgroups, ShowTheLeastQuota_OfNestedGroups) {
  const RealCgroup group("cpu");
  if (!group.why_not().empty()) GTEST_SKIP() << group.why_not();
  group.limit_cpu(group.outer(), 1.5);
  EXPECT_EQ(seen_in(group, false), fmt::format("1.5 {} 1", group.quota_file(group.outer())));
  group.limit_cpu(group.inner(), 0.5);
  EXPECT_EQ(seen_in(group, false), fmt::format("0.5 {} 1", group.quota_file(group.inner())));
  EXPECT_EQ(seen_in(group, true), fmt::format("0.5 {} 1", group.quota_file(group.inner())));
}

TEST(RealCgroups, BoundTheCores_ByNestedCpusets) {
  const RealCgroup group("cpuset");
  if (!group.why_not().empty()) GTEST_SKIP() << group.why_not();
  const std::vector<int> all = affinity_cpus();
  group.limit_cpus(group.outer(), std::to_string(all.back()));
  group.limit_cpus(group.inner(), std::to_string(all.back()));
  EXPECT_EQ(test::asked_in_child([&] {
              group.enter();
              return fmt::format("{} of {}", usable_cores(), affinity_cpus().front());
            }),
            fmt::format("1 of {}", all.back()));
}

}  // namespace
}  // namespace sinew
