#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/info/doctor/local/kernel_checks.hpp>
#include <sinew/tools/info/doctor/local/local_checks.hpp>
#include <sinew/tools/info/doctor/local/memory_checks.hpp>
#include <sinew/tools/info/doctor/local/process_checks.hpp>

namespace sinew::doctor {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// Where nothing is wrong: no rank needs more than a GiB and a core.
HostLimits ample() {
  HostLimits host;
  host.memory_bytes = 64 * kGiB;
  host.available_bytes = 60 * kGiB;
  host.descriptors = {1024, 1024};
  host.huge_pages = "madvise";
  host.congestion_control = "cubic";
  return host;
}
JobShape four_ranks() { return {.ranks = 8, .ranks_here = 4, .hosts = 2, .cores = 4, .rank_bytes = kGiB}; }

TEST(DoctorChecks, FindNothing_WhereNothingIsWrong) {
  for (const Finding& f : check_host(ample(), four_ranks(), "")) {
    EXPECT_EQ(f.severity, Severity::Fine) << f.what << ": " << f.found;
    EXPECT_EQ(f.cure, "") << f.what;
  }
}

TEST(DoctorMemory, Fails_WhereALimitLeavesLessThanTheRanksTake) {
  HostLimits host = ample();
  host.group_memory = CgroupRoom{6 * kGiB, 3 * kGiB, "/sys/fs/cgroup/job/memory.max"};
  const Finding f = check_memory(host, four_ranks());
  EXPECT_EQ(f.severity, Severity::Fails);
  EXPECT_EQ(f.found, "3 GiB left for 4 ranks, 4 GiB needed (/sys/fs/cgroup/job/memory.max is 6 GiB, 3 GiB are taken)");
  EXPECT_THAT(f.cure, HasSubstr("--mem"));
  host.group_memory->used = 2 * kGiB;
  EXPECT_EQ(check_memory(host, four_ranks()).severity, Severity::Fine) << "exactly enough";
  host.group_memory->used = 7 * kGiB;
  EXPECT_THAT(check_memory(host, four_ranks()).found, HasSubstr("0 B left")) << "more than there is";
}

TEST(DoctorMemory, Warns_WhereNobodyHasSaidWhatRanksTake) {
  HostLimits host = ample();
  host.available_bytes = kGiB / 8;
  JobShape job = four_ranks();
  job.rank_bytes.reset();
  const Finding f = check_memory(host, job);
  EXPECT_EQ(f.severity, Severity::Warns);
  EXPECT_EQ(f.found, "128 MiB left for 4 ranks, 256 MiB needed as a guess (the machine has 64 GiB in all)");
  job.rank_bytes = kRankBytes;
  EXPECT_EQ(check_memory(host, job).severity, Severity::Fails);
}

TEST(DoctorMemory, Warns_WhereSwapSpaceTakesTheRest_AsFarAsTheGroupMayHaveIt) {
  HostLimits host = ample();
  host.group_memory = CgroupRoom{3 * kGiB, 0, "/sys/fs/cgroup/memory.max"};
  host.swap_bytes = kGiB;
  const Finding f = check_memory(host, four_ranks());
  EXPECT_EQ(f.severity, Severity::Warns);
  EXPECT_THAT(f.found, HasSubstr("; 1 GiB of swap space take more)"));
  EXPECT_THAT(f.cure, HasSubstr("--mem"));
  host.swap_bytes = kGiB - 1;
  EXPECT_EQ(check_memory(host, four_ranks()).severity, Severity::Fails);
  host.swap_bytes = kGiB;
  host.group_swap = CgroupRoom{0, 0, "/sys/fs/cgroup/memory.swap.max"};
  EXPECT_EQ(check_memory(host, four_ranks()).severity, Severity::Fails);
  host.available_bytes = 2 * kGiB;  // less still, but the machine has swap space for it: the group has not
  host.swap_bytes = 2 * kGiB;
  EXPECT_THAT(check_memory(host, four_ranks()).found, HasSubstr("3 GiB left for 4 ranks"));
}

TEST(DoctorMemory, Fails_WhereTheMachineHasLess_OrMayPromiseLess) {
  HostLimits host = ample();
  host.available_bytes = kGiB;
  EXPECT_THAT(check_memory(host, four_ranks()).cure, HasSubstr("fewer ranks"));
  host = ample();
  host.commit_bytes = 10 * kGiB;
  host.committed_bytes = 8 * kGiB;
  EXPECT_EQ(check_memory(host, four_ranks()).severity, Severity::Fine) << "vm.overcommit_memory is not 2";
  host.overcommit = 2;
  const Finding f = check_memory(host, four_ranks());
  EXPECT_EQ(f.severity, Severity::Fails);
  EXPECT_THAT(f.found, HasSubstr("2 GiB left for 4 ranks"));
  EXPECT_THAT(f.cure, HasSubstr("vm.overcommit_memory=0"));
}

TEST(DoctorHugePages, Warns_WhereAPoolLiesIdle_OrTransparentOnesAreOff) {
  HostLimits host = ample();
  host.huge_bytes = 32 * kGiB;
  EXPECT_THAT(check_huge_pages(host).found, HasSubstr("32 GiB of 64 GiB are reserved"));
  EXPECT_EQ(check_huge_pages(host).severity, Severity::Warns);
  host = ample();
  host.shared_huge_pages = "advise";
  EXPECT_EQ(check_huge_pages(host).found, "transparent ones: madvise; for shared memory: advise");
  host.huge_pages = "never";
  EXPECT_EQ(check_huge_pages(host).severity, Severity::Warns);
}

TEST(DoctorDescriptors, GrowWithRanksHereElsewhereAndNetworks) {
  const std::uint64_t one = descriptors_needed({});
  EXPECT_EQ(descriptors_needed({.ranks = 2, .ranks_here = 2}) - one, 5u) << "three and a connection, and the store's";
  EXPECT_EQ(descriptors_needed({.ranks = 2, .ranks_here = 1, .hosts = 2}) - one, 4u)
      << "control and data, the host's link, and the store's";
  EXPECT_EQ(descriptors_needed({.ranks = 2, .ranks_here = 1, .hosts = 2, .networks = 4}) - one, 7u);
}

TEST(DoctorDescriptors, Warns_AndSaysWhoCanRaiseTheLimit) {
  HostLimits host = ample();
  const JobShape large{.ranks = 512, .ranks_here = 8, .hosts = 64, .networks = 2};
  const Finding hard = check_descriptors(host, large);
  EXPECT_EQ(hard.severity, Severity::Warns);
  EXPECT_THAT(hard.cure, AllOf(HasSubstr("the hard limit is 1024"), HasSubstr("LimitNOFILE=")));
  host.descriptors.hard = 1 << 20;
  EXPECT_THAT(check_descriptors(host, large).cure, HasSubstr("ulimit -n 2"));
  host.descriptors = {};
  EXPECT_EQ(check_descriptors(host, large).severity, Severity::Fine);
}

/// Each rank has one of each other rank, whatever is allowed.
TEST(DoctorDescriptors, Fails_WhereTheRanksOfAHostCannotMeet) {
  HostLimits host = ample();
  const JobShape eight{.ranks = 8, .ranks_here = 8};
  host.descriptors.soft = 9;
  EXPECT_EQ(check_descriptors(host, eight).severity, Severity::Warns);
  host.descriptors.soft = 8;
  const Finding f = check_descriptors(host, eight);
  EXPECT_EQ(f.severity, Severity::Fails);
  EXPECT_THAT(f.found, HasSubstr("8 for each rank (ulimit -n), 8 needed for the ranks of this host to meet"));
  EXPECT_EQ(check_descriptors(host, {.ranks = 8, .ranks_here = 1, .hosts = 8}).severity, Severity::Warns)
      << "nobody to meet";
}

TEST(DoctorTasks, Warns_WhereTheGroupOrTheUserMayNotStartThemAll) {
  HostLimits host = ample();
  host.group_tasks = CgroupRoom{100, 90, "/sys/fs/cgroup/pids.max"};
  const Finding group = check_tasks(host, four_ranks());
  EXPECT_EQ(group.severity, Severity::Warns);
  EXPECT_THAT(group.found, HasSubstr("/sys/fs/cgroup/pids.max allows 100, 90 run"));
  host.group_tasks->used = 80;
  EXPECT_EQ(check_tasks(host, four_ranks()).severity, Severity::Fine);
  host.tasks.soft = 100;
  host.user_tasks = 84;
  EXPECT_EQ(check_tasks(host, four_ranks()).severity, Severity::Fine) << "exactly enough";
  host.user_tasks = 85;
  const Finding user = check_tasks(host, four_ranks());
  EXPECT_EQ(user.severity, Severity::Warns);
  EXPECT_THAT(user.found, HasSubstr("100 for this user (ulimit -u), 85 run"));
  EXPECT_THAT(user.cure, HasSubstr("nproc"));
  host.is_root = true;
  EXPECT_EQ(check_tasks(host, four_ranks()).severity, Severity::Fine) << "the limit does not bind root";
}

TEST(DoctorTasks, Fails_WhereNotEveryRankCanStartOne) {
  HostLimits host = ample();
  host.group_tasks = CgroupRoom{100, 97, "/sys/fs/cgroup/pids.max"};
  EXPECT_EQ(check_tasks(host, four_ranks()).severity, Severity::Warns) << "three, and the doctor's own";
  host.group_tasks->used = 98;
  EXPECT_EQ(check_tasks(host, four_ranks()).severity, Severity::Fails);
  EXPECT_EQ(check_tasks(host, {}).severity, Severity::Warns) << "who is alone needs none";
  host.group_tasks->used = 90;
  host.tasks.soft = 50;
  host.user_tasks = 60;
  const Finding user = check_tasks(host, four_ranks());
  EXPECT_EQ(user.severity, Severity::Fails) << "the worse of the two";
  EXPECT_THAT(user.found, HasSubstr("50 for this user (ulimit -u), 60 run"));
}

TEST(DoctorMappings, Warns_OfAddressSpaceAndOfLockedMemoryForRdma) {
  HostLimits host = ample();
  host.locked_bytes.soft = 65536;
  EXPECT_TRUE(check_mappings(host).empty()) << "no RDMA";
  host.rdma = true;
  host.address_space.soft = 4 * kGiB;
  const auto found = check_mappings(host);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].found, HasSubstr("4 GiB"));
  EXPECT_THAT(found[1].found, HasSubstr("64 KiB"));
}

TEST(DoctorDirectReads, SayWhatForbidsThem) {
  HostLimits host = ample();
  EXPECT_EQ(check_direct_reads(host, std::nullopt).severity, Severity::Fine);
  host.ptrace_scope = 1;
  const Finding alone = check_direct_reads(host, std::nullopt);
  EXPECT_EQ(alone.severity, Severity::Warns);
  EXPECT_THAT(alone.found, HasSubstr("kernel.yama.ptrace_scope is 1, expected 0"));
  EXPECT_EQ(alone.cure, "sysctl kernel.yama.ptrace_scope=0");
  EXPECT_EQ(check_direct_reads(host, "").severity, Severity::Fine) << "it was tried, and could";
  host.may_trace = true;
  EXPECT_EQ(check_direct_reads(host, std::nullopt).severity, Severity::Fine);
  host.ptrace_scope = 3;
  EXPECT_THAT(check_direct_reads(host, std::nullopt).cure, HasSubstr("restart"));
  host = ample();
  const Finding container = check_direct_reads(host, "process_vm_readv from process 7: Operation not permitted");
  EXPECT_THAT(container.found, HasSubstr("process 7: Operation not permitted"));
  EXPECT_THAT(container.cure, HasSubstr("seccomp"));
}

TEST(DoctorCongestionControl, WarnsOfBbr_BetweenHostsOnly) {
  HostLimits host = ample();
  host.congestion_control = "bbr";
  EXPECT_EQ(check_congestion_control(host, four_ranks()).severity, Severity::Warns);
  EXPECT_EQ(check_congestion_control(host, {}).severity, Severity::Fine);
}

TEST(DoctorCores, Warns_OfQuotasBelowTheAffinity_AndOfTooManyRanks) {
  HostLimits host = ample();
  host.group_cpu = CpuQuota{2.5, "/sys/fs/cgroup/cpu.max"};
  EXPECT_THAT(check_cores(host, four_ranks()).found,
              HasSubstr("/sys/fs/cgroup/cpu.max allows 2.5 cores, the affinity of 4 ranks has 4"));
  host.group_cpu->cores = 4;
  EXPECT_EQ(check_cores(host, four_ranks()).severity, Severity::Fine);
  const Finding crowded = check_cores(host, {.ranks = 5, .ranks_here = 5, .cores = 4});
  EXPECT_EQ(crowded.severity, Severity::Warns);
  EXPECT_THAT(crowded.found, HasSubstr("4 for 5 ranks"));
}

TEST(DoctorFindings, AreOne_WhereOnlyTheirHostsDiffer_AndTheWorstComesFirst) {
  const Finding fine{Severity::Fine, "a", "x"};
  const Finding one{Severity::Warns, "b", "y", "z", {"n1"}};
  const Finding other{Severity::Warns, "b", "y", "z", {"n2"}};
  const Finding worst{Severity::Fails, "c", "w", "v", {"n3"}};
  const std::vector<Finding> given{fine, one, other, other, worst};
  const auto all = merged(given);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], worst);
  EXPECT_EQ(all[1].hosts, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(all[2], fine);
  EXPECT_TRUE(would_fail(all));
  EXPECT_FALSE(would_fail(std::span(all).subspan(1)));
}

}  // namespace
}  // namespace sinew::doctor
