#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../tools/bench/sweep.hpp"

namespace sinew::tools {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(BenchSweep, MultipliesUpToTheLargest) {
  EXPECT_EQ(sweep(8, 64, 2, 4), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sweep(8, 100, 3, 4), (Sizes{8, 24, 72}));
  EXPECT_EQ(sweep(64, 64, 2, 4), (Sizes{64}));
  EXPECT_EQ(sweep(8, 64 << 20, 2, 4).size(), 24u);
}

TEST(BenchSweep, GoesOnFromOneUnit_AfterZero) {
  EXPECT_EQ(sweep(0, 32, 2, 8), (Sizes{0, 8, 16, 32}));
  EXPECT_EQ(sweep(0, 0, 2, 8), (Sizes{0}));
}

TEST(BenchSweep, RoundsDownToWholeUnitsAndRepeatsNone) {
  EXPECT_EQ(sweep(8, 100, 2, 12), (Sizes{0, 12, 24, 60}));
  EXPECT_EQ(sweep(1, 9, 2, 4), (Sizes{0, 4, 8}));
  EXPECT_EQ(sweep(7, 7, 2, 2), (Sizes{6}));
}

TEST(BenchSweep, EndsBeforeItOverflows) {
  EXPECT_EQ(sweep(std::uint64_t{1} << 62, ~std::uint64_t{0}, 16, 1), (Sizes{std::uint64_t{1} << 62}));
}

}  // namespace
}  // namespace sinew::tools
