#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "invariant.hpp"

namespace gpt::test {
namespace {

struct Asked {
  std::string name;
  Options options;
  int ranks;
};

void PrintTo(const Asked& asked, std::ostream* out) { *out << asked.name << ", " << asked.ranks << " ranks"; }

std::vector<Asked> all_asked() {
  std::vector<Asked> all;
  for (const auto& [name, options] : invariant_models()) {
    for (const int ranks : {1, 2, 4, 8}) all.push_back({name, options, ranks});
  }
  return all;
}

class AllInvariant : public ::testing::TestWithParam<Asked> {};

/// Every layout of so many ranks has the bits of one process: losses, norms and all weights. Prints a line.
TEST_P(AllInvariant, TrainingHasTheBitsOfOneProcess) {
  constexpr int kTold = 100;
  const auto& [name, options, ranks] = GetParam();
  const Bits alone = train_for_bits(1, options);
  const std::vector<sinew::parallel::JobConfig> layouts = invariant_layouts(ranks, options);
  Comparison all;
  for (const auto& job : layouts) {
    Options one = options;
    one.job = job;
    all.add(layout_name(ranks, job), train_for_bits(ranks, one), alone);
    if (all.runs % kTold != 0) continue;
    fmt::print("... {} of {} runs, {} differ\n", all.runs, layouts.size(), all.differing);
    std::fflush(stdout);
  }
  fmt::print("invariant: {} runs, {} differ ({}): {} ranks, {}\n", all.runs, all.differing,
             all.first.empty() ? "none" : all.first, ranks, name);
  EXPECT_GT(all.runs, 30);
  EXPECT_EQ(all.differing, 0) << all.first;
}

INSTANTIATE_TEST_SUITE_P(Models, AllInvariant, ::testing::ValuesIn(all_asked()));

}  // namespace
}  // namespace gpt::test
