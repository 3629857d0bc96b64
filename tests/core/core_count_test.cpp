#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/cpu.hpp>

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
  count.add(std::vector{0, 1, 2, 3}, 2.5);
  EXPECT_EQ(count.cores(), 3);
  count.add(std::vector{0, 1, 2, 3}, 0);  // no limit
  EXPECT_EQ(count.cores(), 3);
  count.add(std::vector{4}, 1.0);
  EXPECT_EQ(count.cores(), 1);
  count.add(std::vector{5}, 0.1);
  EXPECT_EQ(count.cores(), 1);
}

TEST(CoreCount, OfThisProcess_IsItsAffinityAtMost) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(affinity_cpus().size()));
}

}  // namespace
}  // namespace sinew
