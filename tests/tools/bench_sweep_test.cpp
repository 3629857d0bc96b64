#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/bench/cases/sweep.hpp>

namespace sinew::tools {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(BenchSweep, MultipliesUpToTheLargest) {
  EXPECT_EQ(sweep(8, 64, {.factor = 2}, 4), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sweep(8, 100, {.factor = 3}, 4), (Sizes{8, 24, 72}));
  EXPECT_EQ(sweep(64, 64, {.factor = 2}, 4), (Sizes{64}));
  EXPECT_EQ(sweep(8, 64 << 20, {.factor = 2}, 4).size(), 24u);
}

TEST(BenchSweep, GoesOnFromOneUnit_AfterZero) {
  EXPECT_EQ(sweep(0, 32, {.factor = 2}, 8), (Sizes{0, 8, 16, 32}));
  EXPECT_EQ(sweep(0, 0, {.factor = 2}, 8), (Sizes{0}));
}

TEST(BenchSweep, RoundsDownToWholeUnitsAndRepeatsNone) {
  EXPECT_EQ(sweep(8, 100, {.factor = 2}, 12), (Sizes{0, 12, 24, 60}));
  EXPECT_EQ(sweep(1, 9, {.factor = 2}, 4), (Sizes{0, 4, 8}));
  EXPECT_EQ(sweep(7, 7, {.factor = 2}, 2), (Sizes{6}));
}

TEST(BenchSweep, EndsBeforeItOverflows) {
  EXPECT_EQ(sweep(std::uint64_t{1} << 62, ~std::uint64_t{0}, {.factor = 16}, 1), (Sizes{std::uint64_t{1} << 62}));
}

constexpr std::uint64_t kMost = ~std::uint64_t{0};

TEST(BenchSweep, AddsSteps_AsNcclTestsDoes) {
  EXPECT_EQ(sweep(8, 64, {.step_bytes = 24}, 4), (Sizes{8, 32, 56}));
  EXPECT_EQ(sweep(8, 56, {.step_bytes = 24}, 4), (Sizes{8, 32, 56}));
  EXPECT_EQ(sweep(0, 20, {.step_bytes = 8}, 4), (Sizes{0, 8, 16}));
  EXPECT_EQ(sweep(64, 64, {.step_bytes = 8}, 4), (Sizes{64}));
}

TEST(BenchSweep, RoundsStepsDown_AndRepeatsNone) {
  EXPECT_EQ(sweep(4, 10, {.step_bytes = 1}, 4), (Sizes{4, 8}));
  EXPECT_EQ(sweep(0, 9, {.step_bytes = 3}, 4), (Sizes{0, 4, 8}));
  EXPECT_EQ(sweep(kMost - 5, kMost, {.step_bytes = 4}, 1), (Sizes{kMost - 5, kMost - 1}));
}

}  // namespace
}  // namespace sinew::tools
