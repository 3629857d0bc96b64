#include <sched.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/cpu_list.hpp>
#include <support/asked_in_child.hpp>
#include <support/refused_calls.hpp>

namespace sinew {
namespace {

TEST(CoreCount, CountsACoreOnce_WhenSeveralMayUseIt) {
  CoreCount count;
  EXPECT_EQ(count.cores(), 1);
  count.add(std::vector{0}, 0);
  count.add(std::vector{1}, 0);  // bound to a core each
  EXPECT_EQ(count.cores(), 2);
  count.add(std::vector{0, 1, 7}, 0);
  EXPECT_EQ(count.cores(), 3);
}

TEST(CoreCount, StaysWithinTheSmallestQuota) {
  CoreCount count;
  count.add(std::vector{0, 1, 2, 3}, 3.0);
  EXPECT_EQ(count.cores(), 3);
  count.add(std::vector{0, 1, 2, 3}, 2.9);
  EXPECT_EQ(count.cores(), 2) << "ranks that spun on a part of a core would use up the quota";
  count.add(std::vector{0, 1, 2, 3}, 0);  // no limit
  EXPECT_EQ(count.cores(), 2);
  count.add(std::vector{4}, 1.0);
  EXPECT_EQ(count.cores(), 1);
  count.add(std::vector{5}, 0.1);
  EXPECT_EQ(count.cores(), 1);
}

TEST(CoreCount, OfThisProcess_IsItsAffinityAtMost) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(affinity_cpus().size()));
}

TEST(AffinityCpus, ComeFromProc_WhereASandboxRefusesTheCall) {
  const std::vector<int> last{affinity_cpus().back()};
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EQ(test::asked_in_child([&]() -> std::string {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(last.front(), &one);
                if (sched_setaffinity(0, sizeof one, &one) != 0) return "may not set the affinity";
                if (!test::refuse_calls(std::array{static_cast<int>(SYS_sched_getaffinity)}, error)) return "no filter";
                return format_cpu_list(affinity_cpus());
              }),
              format_cpu_list(last));
  }
}

}  // namespace
}  // namespace sinew
