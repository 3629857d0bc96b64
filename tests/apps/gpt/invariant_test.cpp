#include "invariant.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpt::test {
namespace {

namespace sp = sinew::parallel;

/// Every so many of all layouts that whole_gpt_layouts compares.
void expect_one_process(const std::string& name, Options options, const std::vector<int>& all_ranks,
                        std::size_t every) {
  options.steps = 2;
  const Bits alone = train_for_bits(1, options);
  Comparison all;
  for (const int ranks : all_ranks) {
    const std::vector<sp::JobConfig> layouts = invariant_layouts(ranks, options);
    for (std::size_t i = 0; i < layouts.size(); i += every) {
      options.job = layouts[i];
      all.add(layout_name(ranks, options.job), train_for_bits(ranks, options), alone);
    }
  }
  EXPECT_GT(all.runs, 5) << name;
  EXPECT_EQ(all.differing, 0) << name << ", first of " << all.runs << ": " << all.first;
}

TEST(Invariant, TrainingHasTheBitsOfOneProcess) {
  for (const auto& [name, options] : invariant_models()) expect_one_process(name, options, {1, 2, 4, 8}, 101);
}

/// Each axis by itself, in a few layouts that are easy to name.
TEST(Invariant, TrainingHasTheBitsOfOneProcess_AlongEachAxis) {
  for (const auto& [name, options] : invariant_models()) {
    const Bits alone = train_for_bits(1, options);
    const auto expect_same = [&](int ranks, const char* what, const auto& change) {
      Options some = options;
      change(some.job);
      Comparison one;
      one.add(what, train_for_bits(ranks, some), alone);
      EXPECT_EQ(one.first, "") << name;
    };
    expect_same(1, "passes", [](sp::JobConfig& c) { c.micro_batches = 4; });
    expect_same(2, "dp", [](sp::JobConfig&) {});
    expect_same(4, "zero 3, passes", [](sp::JobConfig& c) { c.zero = 3, c.micro_batches = 2; });
    expect_same(4, "replicas", [](sp::JobConfig& c) { c.zero = 3, c.replicas = 2; });
    expect_same(2, "tp", [](sp::JobConfig& c) { c.layout.tp = 2; });
    expect_same(4, "tp", [](sp::JobConfig& c) { c.layout.tp = 4; });
    expect_same(4, "tp with rows cut", [](sp::JobConfig& c) { c.layout.tp = 4, c.sequence_parallel = true; });
    expect_same(2, "cp", [](sp::JobConfig& c) { c.layout.cp = 2; });
    expect_same(4, "cp", [](sp::JobConfig& c) { c.layout.cp = 4, c.micro_batches = 2; });
    expect_same(4, "head sharers", [](sp::JobConfig& c) { c.layout.cp = 4, c.layout.cp_levels = {2, 2}; });
    expect_same(2, "pp", [](sp::JobConfig& c) { c.layout.pp = 2, c.micro_batches = 4; });
    expect_same(2, "zb-h1", [](sp::JobConfig& c) {
      c.layout.pp = 2, c.micro_batches = 4, c.schedule = "zb-h1", c.recompute = sp::Recompute::None;
    });
    for (const char* schedule : {"zb-v", "dualpipev"}) {
      Options in_v = options;
      in_v.job.layout.pp = in_v.job.virtual_stages = 2;
      in_v.job.micro_batches = 4, in_v.job.schedule = schedule, in_v.job.recompute = sp::Recompute::None;
      Comparison one;
      one.add(schedule, train_for_bits(2, in_v), alone);
      EXPECT_EQ(one.first, "") << name;
    }
    expect_same(8, "all", [](sp::JobConfig& c) { c.layout.tp = c.layout.cp = 2, c.zero = 2; });
  }
}

/// A scale that is a power of two changes no bit, and skipped steps are the same ones in every layout.
TEST(Invariant, TrainingHasTheBitsOfOneProcess_WithAScaledLoss) {
  for (const auto& [name, plain] : invariant_models()) {
    const Bits unscaled = train_for_bits(1, plain);
    Options scaled = plain;
    scaled.loss_scale.emplace();
    Options skipping = scaled;
    skipping.steps = 4;
    skipping.overflow_at = {1, 2};
    const Bits skipped = train_for_bits(1, skipping);
    Comparison one;
    const auto compare = [&, &model = name](int ranks, const auto& change) {
      change(scaled.job), change(skipping.job);
      one.add(model + ", scaled, " + layout_name(ranks, scaled.job), train_for_bits(ranks, scaled), unscaled);
      one.add(model + ", skipped, " + layout_name(ranks, skipping.job), train_for_bits(ranks, skipping), skipped);
      scaled.job = skipping.job = plain.job;
    };
    compare(1, [](sp::JobConfig&) {});
    compare(4, [](sp::JobConfig& c) { c.zero = 3, c.micro_batches = 2; });
    compare(4, [](sp::JobConfig& c) { c.layout.tp = 2, c.sequence_parallel = true, c.zero = 1; });
    compare(4, [](sp::JobConfig& c) { c.layout.cp = 2, c.zero = 2; });
    compare(4, [](sp::JobConfig& c) { c.layout.pp = 2, c.micro_batches = 4; });
    EXPECT_EQ(one.runs, 10);
    EXPECT_EQ(one.first, "");
    scaled.loss_scale = sp::LossScalerOptions{.initial = 1000, .is_fixed = true};
    Comparison control;
    control.add("no power of two", train_for_bits(1, scaled), unscaled);
    control.add("skipped", skipped, unscaled);
    EXPECT_EQ(control.differing, 2) << name << ": the comparison shows other bits";
  }
}

/// It is the same training: but for rounding, gradients and losses are those of sums that are made as is fastest.
TEST(Invariant, TrainingIsTraining) {
  for (auto [name, options] : invariant_models()) {
    options.job.precision = {sinew::DType::F64, sinew::DType::F64, sinew::DType::F64};
    Options fast = options;
    fast.job.determinism = sinew::Determinism::Fast;
    const Training alone = train_alone(fast);
    options.job.layout.cp = 2;
    const Deviation worst = train_together(4, options, alone);
    EXPECT_LT(worst.gradient, 1e-12) << name;
    EXPECT_LT(worst.loss, 1e-12) << name;
  }
}

/// What is compared does show: sums that are made as is fastest, and other words on one rank.
TEST(Invariant, ComparisonShowsAnotherOrder_AndOtherData) {
  Options options = invariant_models().front().second;
  options.steps = 2;
  const Bits alone = train_for_bits(1, options);
  Options fast = options;
  fast.job.determinism = sinew::Determinism::Fast;
  const Bits fast_alone = train_for_bits(1, fast);
  Comparison orders, words;
  for (const auto& [tp, cp] : {std::pair(1, 1), {2, 1}, {1, 2}}) {
    options.job.layout.tp = fast.job.layout.tp = tp;
    options.job.layout.cp = fast.job.layout.cp = cp;
    orders.add("fast", train_for_bits(4, fast), fast_alone);
    if (tp == 1) words.add("other words", train_for_bits(4, options, 3), alone);
  }
  EXPECT_EQ(orders.differing, orders.runs);
  EXPECT_EQ(words.differing, words.runs);
}

}  // namespace
}  // namespace gpt::test
