
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "layouts.hpp"

namespace gpt::test {
namespace {

using Layouts = std::vector<sinew::parallel::JobConfig>;

/// Prints a line: how many there were and how far the worst was off.
void train_all(const std::string& name, const Options& options, Layouts (*layouts)(int, const Options&), int least) {
  const Training alone = train_alone(options);
  Deviation worst;
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    Options one = options;
    for (const auto& job : layouts(ranks, options)) {
      one.job = job;
      worst.add(train_together(ranks, one, alone));
    }
    fmt::print("... {} runs, up to {} ranks: {}\n", worst.runs, ranks, name);
    std::fflush(stdout);
  }
  fmt::print("layouts: {} runs, gradient {:.2g} ({}), loss {:.2g} ({}): {}\n", worst.runs, worst.gradient,
             worst.of_gradient, worst.loss, worst.of_loss, name);
  EXPECT_GE(worst.runs, least) << name;
  EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
  EXPECT_LT(worst.loss, 1e-9) << name << ", " << worst.of_loss;
}

/// Every layout of 1, 2, 3, 4, 6 and 8 ranks trains as one process does.
TEST(AllLayouts, TrainAsOneProcess) {
  for (const auto& [name, options] : models()) train_all(name, options, &layouts_of, 200);
}

/// Every layout of them over all axes, of models with experts.
TEST(AllExperts, TrainAsOneProcess) {
  for (const auto& [name, options] : models_with_experts()) {
    const Training alone = train_alone(options);
    Deviation worst;
    for (const int ranks : {1, 2, 4, 6, 8}) {
      Options one = options;
      for (const auto& [job, way] : expert_layouts_of(ranks, options)) {
        one.job = job;
        one.experts = way;
        worst.add(train_together(ranks, one, alone));
      }
      fmt::print("... {} runs, up to {} ranks: {}\n", worst.runs, ranks, name);
      std::fflush(stdout);
    }
    fmt::print("layouts: {} runs, gradient {:.2g} ({}), loss {:.2g} ({}), routed {}: {}\n", worst.runs, worst.gradient,
               worst.of_gradient, worst.loss, worst.of_loss, worst.routed, name);
    EXPECT_GE(worst.runs, 400) << name;
    EXPECT_EQ(worst.routed, 0) << name;
    EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-9) << name << ", " << worst.of_loss;
  }
}

/// The same with pipelines.
TEST(AllPipelines, TrainAsOneProcess) {
  for (const auto& [name, options] : models_of_pipelines()) train_all(name, options, &pipelines_of, 150);
}

/// A sample over everything at once.
TEST(AllDrawn, TrainAsOneProcess) {
  const auto models = models_to_draw_from();
  const std::vector<Deviation> all = train_sample(1000, 800);
  for (std::size_t m = 0; m < all.size(); ++m) {
    fmt::print("layouts: {} runs, gradient {:.2g} ({}), loss {:.2g} ({}), routed {}: drawn of {}\n", all[m].runs,
               all[m].gradient, all[m].of_gradient, all[m].loss, all[m].of_loss, all[m].routed, models[m].first);
    EXPECT_EQ(all[m].routed, 0) << models[m].first;
    EXPECT_LT(all[m].gradient, 1e-12) << models[m].first << ", " << all[m].of_gradient;
    EXPECT_LT(all[m].loss, 1e-12) << models[m].first << ", " << all[m].of_loss;
  }
}

}  // namespace
}  // namespace gpt::test
