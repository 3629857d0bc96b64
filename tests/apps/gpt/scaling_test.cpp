#include <cmath>
#include <gpt/train/trainer.hpp>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <support/worlds.hpp>

#include "layouts.hpp"

namespace gpt::test {
namespace {

using sinew::parallel::JobConfig;
using sinew::parallel::LossScalerOptions;
using sinew::test::on_threads;
using sinew::test::only;

/// Two of five steps overflow, on the last rank.
Options skipping(Options options) {
  options.loss_scale.emplace();
  options.overflow_at = {1, 3};
  options.steps = 5;
  return options;
}

void expect_sound(const Deviation& worst, const std::string& name) {
  EXPECT_EQ(worst.routed, 0) << name;
  EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
  EXPECT_LT(worst.loss, 1e-12) << name << ", " << worst.of_loss;
}

/// The infinity is on one rank, in a gradient that tensor-parallel ranks have copies of. Every rank of every layout
/// skips the steps that one process skips.
TEST(ScaledLayouts, SkipTheStepsOfOneProcess) {
  for (const auto& [layouts, models, every] :
       {std::tuple(&layouts_of, models(), std::size_t{41}), {&pipelines_of, models_of_pipelines(), std::size_t{29}}}) {
    for (const auto& [name, model] : models) {
      Options options = skipping(model);
      const Training alone = train_alone(options);
      Deviation worst;
      for (const int ranks : {2, 4, 6}) {
        const std::vector<JobConfig> all = layouts(ranks, options);
        for (std::size_t i = 0; i < all.size(); i += every) {
          Options one = options;
          one.job = all[i];
          worst.add(train_together(ranks, one, alone));
        }
      }
      EXPECT_GE(worst.runs, 4) << name;
      expect_sound(worst, name);
    }
  }
}

TEST(ScaledLayouts, SkipTheStepsOfOneProcess_WithExperts) {
  for (const auto& [name, model] : models_with_experts()) {
    Options options = skipping(model);
    const Training alone = train_alone(options);
    Deviation worst;
    for (const int ranks : {2, 4}) {
      const auto all = expert_layouts_of(ranks, options);
      for (std::size_t i = 0; i < all.size(); i += 31) {
        Options one = options;
        one.job = all[i].first;
        one.experts = all[i].second;
        worst.add(train_together(ranks, one, alone));
      }
    }
    EXPECT_GE(worst.runs, 4) << name;
    expect_sound(worst, name);
  }
}

/// The negative control: a layout that skipped other steps would have other losses.
TEST(ScaledLayouts, ShowASkippedStep) {
  Options options = skipping(models().front().second);
  const Training alone = train_alone(options);
  options.overflow_at = {1};
  EXPECT_GT(train_together(2, options, alone).loss, 1e-6);
  options.overflow_at = {1, 2};
  EXPECT_GT(train_together(2, options, alone).loss, 1e-6);
}

/// A scale changes nothing but what the report says of it.
TEST(ScaledLayouts, TrainAsWithoutAScale) {
  for (const auto& [name, model] : models_with_experts()) {
    Options options = model;
    options.steps = 3;
    const Training alone = train_alone(options);
    options.job.layout.ep = 2;
    for (const double scale : {65536.0, 1000.0}) {
      options.loss_scale = LossScalerOptions{.initial = scale, .is_fixed = true};
      expect_sound(train_together(2, options, alone), name);
    }
  }
}

TEST(ScaledLayouts, SayWhatIsSkipped) {
  Options options = skipping(models().front().second);
  options.job.layout.tp = 2;
  options.job.zero = 3;
  on_threads(4, only("inproc"), [&](sinew::World& world) {
    const Text text = words();
    Trainer trainer(world, options, text);
    std::vector<double> scales;
    std::vector<bool> skipped;
    for (std::int64_t step = 0; step < options.steps; ++step) {
      const StepReport report = trainer.step(step);
      scales.push_back(report.loss_scale);
      skipped.push_back(report.is_skipped);
      sinew::test::require(std::isfinite(report.norm) != report.is_skipped, "norm");
    }
    sinew::test::require(scales == std::vector{65536.0, 65536.0, 32768.0, 32768.0, 16384.0}, "scales");
    sinew::test::require(skipped == std::vector{false, true, false, true, false}, "skipped");
    sinew::test::require(trainer.held().front().optimizer.steps() == 3, "the optimizer's steps");
  });
}

/// Nothing changes: not the biases of routers either, which follow the load of other steps.
TEST(ScaledLayouts, KeepBiasesOfRouters_WhereAStepIsSkipped) {
  Options options = skipping(models_with_experts().back().second);
  options.job.layout.ep = 2;
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    const Text text = words();
    Trainer trainer(world, options, text);
    const auto bias = [&] {
      const std::span<double> now = trainer.routers().bias(0);
      return std::vector<double>(now.begin(), now.end());
    };
    const std::vector<double> initial = bias();
    trainer.step(0);
    const std::vector<double> before = bias();
    sinew::test::require(before != initial, "biases follow the load");
    sinew::test::require(trainer.step(1).is_skipped && bias() == before, "they stay");
  });
}

/// There is no lower scale: to go on would be to skip for ever.
TEST(ScaledLayouts, EndWhereTheLeastScaleOverflows) {
  Options options = skipping(models().front().second);
  options.loss_scale = LossScalerOptions{.initial = 2};
  on_threads(2, only("inproc"), [&](sinew::World& world) {
    const Text text = words();
    Trainer trainer(world, options, text);
    for (const std::int64_t step : {0, 1, 2}) trainer.step(step);
    std::string said;
    try {
      trainer.step(3);
    } catch (const sinew::Error& e) {
      said = e.what();
    }
    sinew::test::require_part(said, "step 3: the norm of the gradients is ");
    sinew::test::require_part(said, " with the least loss scale, 1: expected a number");
  });
}

}  // namespace
}  // namespace gpt::test
