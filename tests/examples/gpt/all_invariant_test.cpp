#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "invariant.hpp"

namespace gpt::test {
namespace {

class AllInvariant : public ::testing::TestWithParam<std::pair<std::string, Options>> {};

/// Every layout of 1, 2, 4 and 8 ranks has the bits of one process: losses, norms and all weights. Prints a line.
TEST_P(AllInvariant, TrainingHasTheBitsOfOneProcess) {
  const auto& [name, options] = GetParam();
  const Bits alone = train_for_bits(1, options);
  Comparison all;
  for (const int ranks : {1, 2, 4, 8}) {
    Options one = options;
    for (const auto& job : invariant_layouts(ranks, options)) {
      one.job = job;
      all.add(layout_name(ranks, job), train_for_bits(ranks, one), alone);
    }
    fmt::print("... {} runs, {} differ, up to {} ranks: {}\n", all.runs, all.differing, ranks, name);
    std::fflush(stdout);
  }
  fmt::print("invariant: {} runs, {} differ ({}): {}\n", all.runs, all.differing,
             all.first.empty() ? "none" : all.first, name);
  EXPECT_GT(all.runs, 500);
  EXPECT_EQ(all.differing, 0) << all.first;
}

INSTANTIATE_TEST_SUITE_P(Models, AllInvariant, ::testing::ValuesIn(invariant_models()));

}  // namespace
}  // namespace gpt::test
