#include "layouts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gpt/train/trainer.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/worlds.hpp>

namespace gpt::test {
namespace {

using Layouts = std::vector<sinew::parallel::JobConfig>;

/// Every so many of all layouts of these ranks.
void expect_one_process(const std::string& name, const Options& options, Layouts (*layouts)(int, const Options&),
                        const std::vector<int>& all_ranks, std::size_t every) {
  Options few = options;
  few.steps = 3;
  const Training alone = train_alone(few);
  Deviation worst;
  for (const int ranks : all_ranks) {
    const Layouts all = layouts(ranks, few);
    ASSERT_GE(all.size(), 4U);
    for (std::size_t i = 0; i < all.size(); i += every) {
      few.job = all[i];
      worst.add(train_together(ranks, few, alone));
    }
  }
  EXPECT_GT(worst.runs, 10) << name;
  EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
  EXPECT_LT(worst.loss, 1e-12) << name << ", " << worst.of_loss;
}

/// A sample over all axes, schedules, ZeRO, recomputation, offload and loss scaling at once.
TEST(Layouts, TrainAsOneProcess_WhateverIsDrawn) {
  const auto models = models_to_draw_from();
  const std::vector<Deviation> all = train_sample(0, 60);
  int runs = 0;
  for (std::size_t m = 0; m < all.size(); ++m) {
    if (all[m].runs == 0) continue;
    runs += all[m].runs;
    EXPECT_EQ(all[m].routed, 0) << models[m].first;
    EXPECT_LT(all[m].gradient, 1e-12) << models[m].first << ", " << all[m].of_gradient;
    EXPECT_LT(all[m].loss, 1e-12) << models[m].first << ", " << all[m].of_loss;
  }
  EXPECT_EQ(runs, 60);
}

/// Some of what every layout is asked by whole_gpt_layouts.
TEST(Layouts, TrainAsOneProcess) {
  for (const auto& [name, options] : models()) expect_one_process(name, options, &layouts_of, {2, 4, 6}, 23);
}

TEST(Layouts, TrainAsOneProcess_InPipelines) {
  for (const auto& [name, options] : models_of_pipelines())
    expect_one_process(name, options, &pipelines_of, {1, 2, 4}, 13);
}

/// The loss and the embeddings' second use are on rank 0, the turn of the V on the last rank. 8 micro-batches are as
/// many as dualpipev is published for, 1 and 3 are fewer.
TEST(Layouts, TrainAsOneProcess_InAV) {
  Options options = models_of_pipelines().front().second;
  options.shape.layers = 8;
  options.steps = 3;
  const Training alone = train_alone(options);
  Deviation worst;
  const auto train = [&](int ranks, int pp, int tp, int micro_batches) {
    for (const char* schedule : {"zb-v", "dualpipev"}) {
      sinew::parallel::JobConfig job = options.job;
      job.layout.pp = pp;
      job.layout.tp = tp;
      job.virtual_stages = 2;
      job.schedule = schedule;
      job.micro_batches = micro_batches;
      job.zero = (worst.runs + worst.runs / 2) % 4;
      Options one = options;
      one.job = job;
      worst.add(train_together(ranks, one, alone));
    }
  };
  for (const int micro_batches : {1, 3, 8}) train(4, 4, 1, micro_batches);
  train(2, 2, 1, 4);
  train(3, 3, 1, 6);
  train(4, 2, 2, 4);
  train(4, 2, 1, 4);
  EXPECT_EQ(worst.runs, 14);
  EXPECT_LT(worst.gradient, 1e-12) << worst.of_gradient;
  EXPECT_LT(worst.loss, 1e-12) << worst.of_loss;
}

/// Without balance losses: a gate that is its score passes the loss on to the router.
TEST(Layouts, TrainRoutersThatChooseOne) {
  Options options = models_with_experts().front().second;
  options.shape.experts = {.count = 6, .top_k = 1};
  options.steps = 1;
  const Training alone = train_alone(options);
  int routers = 0;
  for (const auto& [path, gradient] : alone.gradients) {
    if (path.find("router") == std::string::npos) continue;
    ++routers;
    EXPECT_TRUE(std::ranges::any_of(gradient, [](double g) { return std::abs(g) > 1e-9; })) << path;
  }
  EXPECT_EQ(routers, 4);
}

/// With experts too: the same tokens are dropped, loads and balance losses are the same.
TEST(Layouts, TrainAsOneProcess_WithExperts) {
  for (const auto& [name, options] : models_with_experts()) {
    Options few = options;
    few.steps = 3;
    const Training alone = train_alone(few);
    if (options.shape.experts.capacity > 0) {
      EXPECT_GT(alone.routers.front().dropped, 0);
    }
    EXPECT_GT(alone.routers.front().auxiliary, 0);
    Deviation worst;
    for (const int ranks : {2, 4, 6}) {
      const auto all = expert_layouts_of(ranks, few);
      ASSERT_GE(all.size(), 10U);
      for (std::size_t i = 0; i < all.size(); i += 47) {
        few.job = all[i].first;
        few.experts = all[i].second;
        worst.add(train_together(ranks, few, alone));
      }
    }
    EXPECT_GT(worst.runs, 10) << name;
    EXPECT_EQ(worst.routed, 0) << name;
    EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-12) << name << ", " << worst.of_loss;
  }
}

/// All tokens to one expert: it works, wherever that is, and is reported.
TEST(Layouts, TrainAsOneProcess_WhereOneExpertGetsAll) {
  Options options = models_with_experts().front().second;
  options.shape.experts = {.count = 6, .top_k = 1, .bias_rate = 1e-9};
  options.steps = 1;
  constexpr std::size_t kBusiest = 4;
  const auto step_on = [&](int ranks) {
    StepReport report;
    sinew::test::on_threads(ranks, sinew::test::only("inproc"), [&](sinew::World& world) {
      const Text text = words();
      Trainer trainer(world, options, text);
      for (int block = 0; block < options.shape.layers; ++block) trainer.routers().bias(block)[kBusiest] = 100;
      const StepReport mine = trainer.step(0);
      if (world.rank() == 0) report = mine;
    });
    return report;
  };
  const StepReport alone = step_on(1);
  EXPECT_EQ(alone.routers.imbalance, 6);
  EXPECT_EQ(alone.routers.worst_expert, static_cast<std::int64_t>(kBusiest));
  EXPECT_THAT(line_of(alone), ::testing::HasSubstr("load 6.00 of 6.00 (expert 4 of block 0)"));
  for (const auto& [ep, etp] : {std::pair(1, 1), {2, 1}, {6, 1}, {3, 2}}) {
    options.job.layout.ep = ep;
    options.job.layout.etp = etp;
    for (const auto kind : {sinew::parallel::DispatchKind::AllGather, sinew::parallel::DispatchKind::AllToAll}) {
      options.experts = {kind, 2};
      const StepReport together = step_on(6);
      EXPECT_EQ(together.routers.imbalance, 6);
      EXPECT_NEAR(together.loss / alone.loss, 1, 1e-13);
      EXPECT_NEAR(together.norm / alone.norm, 1, 1e-13);
    }
  }
}

/// Whichever axis a rank belongs to, what it does otherwise shows.
TEST(Layouts, ShowWhatARankDoesOtherwise) {
  Options options = models().front().second;
  options.steps = 2;
  const Training alone = train_alone(options);
  for (const auto& [cp, tp, pp] : {std::tuple(1, 1, 1), {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 1, 2}, {2, 1, 2}}) {
    options.job.layout.cp = cp;
    options.job.layout.tp = tp;
    options.job.layout.pp = pp;
    const int changed = 4 - tp;  // the last one that has letters among its rows of the vocabulary
    const Deviation worst = train_together(4, options, alone, words(), changed);
    EXPECT_GT(worst.gradient, 1e-6) << worst.of_gradient;
    EXPECT_GT(worst.loss, 1e-6) << worst.of_loss;
  }
}

/// A loss is the mean over all tokens, not over what ranks have made of theirs: here most have none.
/// Source: context-parallel means of local counts in Megatron-LM (issue 7452).
TEST(Layouts, CountTokens_WhereSomeRanksHaveNone) {
  Options options = models()[1].second;
  options.steps = 3;
  options.job.global_batch = 4;
  options.job.micro_batches = 1;
  std::vector<std::uint8_t> bytes(400, static_cast<std::uint8_t>(options.shape.document_end));
  for (std::size_t i = 0; i < bytes.size(); i += 40)
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i), 12, 'x');
  for (std::size_t i = 0; i < bytes.size(); i += 3) bytes[i] = bytes[i] == 'x' ? 'y' : bytes[i];
  const Text text("mostly nothing", bytes);

  std::vector<std::int64_t> tokens;  // of each sample of the first step, those that are followed by something
  const auto context = static_cast<std::size_t>(options.shape.context);
  const auto samples = text.sequences({options.job.seed, 0, options.shape.context}, 0, 4);
  for (std::size_t s = 0; s < 4; ++s) {
    const auto* first = samples.data() + s * (context + 1);
    tokens.push_back(std::count(first, first + context, 'x') + std::count(first, first + context, 'y'));
  }
  ASSERT_EQ(*std::ranges::min_element(tokens), 0);
  ASSERT_GT(*std::ranges::max_element(tokens), 0);

  const Training alone = train_alone(options, text);
  for (const auto& [cp, tp] : {std::pair(1, 1), {2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
    options.job.layout.cp = cp;
    options.job.layout.tp = tp;
    const Deviation worst = train_together(4, options, alone, text);
    EXPECT_LT(worst.gradient, 1e-12) << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-12) << worst.of_loss;
  }
}

}  // namespace
}  // namespace gpt::test
