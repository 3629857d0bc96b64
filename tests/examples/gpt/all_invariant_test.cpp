#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "invariant.hpp"

namespace gpt::test {
namespace {

/// Every layout of 1, 2, 4 and 8 ranks has the bits of one process: losses, norms and all weights.
TEST(AllInvariant, TrainingHasTheBitsOfOneProcess) {
  for (const auto& [name, options] : invariant_models()) {
    const Bits alone = train_for_bits(1, options);
    Comparison all;
    for (const int ranks : {1, 2, 4, 8}) {
      Options one = options;
      for (const auto& job : invariant_layouts(ranks, options)) {
        one.job = job;
        all.add(layout_name(ranks, job), train_for_bits(ranks, one), alone);
      }
      fmt::print("... {} runs, up to {} ranks: {}\n", all.runs, ranks, name);
      std::fflush(stdout);
    }
    fmt::print("invariant: {} runs, {} differ ({}): {}\n", all.runs, all.differing,
               all.first.empty() ? "none" : all.first, name);
    EXPECT_GT(all.runs, 500) << name;
    EXPECT_EQ(all.differing, 0) << name << ", " << all.first;
  }
}

}  // namespace
}  // namespace gpt::test
