// Recomputation of activations: the same numbers to the last bit, in less memory.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_blocks.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using test::expect_same_numbers;
using test::file_store;
using test::kBlocks;
using test::kInner;
using test::kRows;
using test::kWidth;
using test::Outcome;
using test::trained;
using ::testing::HasSubstr;

TEST(RecomputationPolicy, KeepsLessAndChangesNoBit) {
  for (const bool splits : {false, true}) {
    const Outcome none = trained({.splits = splits});
    EXPECT_GT(std::ranges::count_if(none.gradients, [](float g) { return g != 0; }), 1000);
    const Outcome selective = trained({.recomputation = {Recompute::Selective}, .splits = splits});
    const Outcome full = trained({.recomputation = {Recompute::Full}, .splits = splits});
    expect_same_numbers(selective, none);
    expect_same_numbers(full, none);
    for (const Outcome* o : {&none, &selective, &full})
      EXPECT_NEAR(static_cast<double>(o->held_bytes) / static_cast<double>(o->planned_bytes), 1, 0.05);
    EXPECT_LT(selective.held_bytes, none.held_bytes);
    if (!splits) {  // between both halves of a backward pass, all is there again
      EXPECT_LT(full.held_bytes, selective.held_bytes);
    }
    EXPECT_EQ(selective.passes.attention, 2 * kBlocks);
    EXPECT_EQ(selective.passes.experts, none.passes.experts);
    EXPECT_EQ(full.passes.attention, 4 * kBlocks);
    EXPECT_EQ(full.passes.experts, 2 * none.passes.experts);
  }
}

/// Nobody keeps the inputs of dropouts. Selective recomputation does not keep the outputs of norms, of dropouts and of
/// the experts' gelu either.
TEST(RecomputationPolicy, DropsTheArraysThatAreCheap) {
  const Outcome none = trained({}), selective = trained({.recomputation = {Recompute::Selective}});
  const Outcome full = trained({.recomputation = {Recompute::Full}});
  const std::size_t norms = kBlocks * 2 * kRows * kWidth, mlps = 4 * kRows * kInner;
  const std::size_t experts = 2 * (kRows * 2) * kInner;  // two experts for each token
  EXPECT_EQ(none.kept_bytes - selective.kept_bytes, (norms + mlps + experts) * sizeof(float));
  EXPECT_EQ(full.kept_bytes, (kBlocks - 1) * kRows * kWidth * sizeof(float));
  for (const Outcome* o : {&none, &selective, &full}) EXPECT_EQ(o->said_bytes, o->kept_bytes);
}

TEST(RecomputationPolicy, TakesModulesByName) {
  const Outcome none = trained({});
  const auto with = [](std::vector<Recomputation::Exception> exceptions) {
    return trained({.recomputation = {Recompute::None, std::move(exceptions)}});
  };
  const Outcome two = with({{"blocks.1", Recompute::Full}, {"blocks.4", Recompute::Full}});
  expect_same_numbers(two, none);
  EXPECT_EQ(two.passes.attention, (kBlocks + 2) * 2);
  EXPECT_EQ(two.passes.experts, none.passes.experts);
  const Outcome attention = with({{"blocks.1.attention", Recompute::Full}});
  expect_same_numbers(attention, none);
  EXPECT_LT(attention.kept_bytes, none.kept_bytes);
  EXPECT_EQ(attention.said_bytes, attention.kept_bytes);
  const Outcome all_but_one = with({{"blocks", Recompute::Full}, {"blocks.1", Recompute::None}});
  expect_same_numbers(all_but_one, none);
  EXPECT_EQ(all_but_one.passes.attention, (2 * kBlocks - 1) * 2);
}

TEST(RecomputationPolicy, SaysWhichNamesStandForNothing) {
  on_threads(1, only("inproc"), [](World& world) {
    const auto with = [&](const Recomputation& recomputation, const ActivationOffload& offload) {
      return complaint([&] { trained(world, {.recomputation = recomputation, .offload = offload}); });
    };
    EXPECT_THAT(with({Recompute::None, {{"blocks.1", Recompute::Full}, {"blocks.1.atten", Recompute::Full}}}, {}),
                HasSubstr("recomputation: no module or unit is called 'blocks.1.atten'"));
    EXPECT_THAT(with({}, {.store = file_store(), .modules = {"block"}}),
                HasSubstr("activation offload: no module or unit is called 'block'"));
    EXPECT_THAT(with({}, {.modules = {"blocks"}}), HasSubstr("names modules, but no store"));
  });
}

}  // namespace
}  // namespace sinew::parallel
