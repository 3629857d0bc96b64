#include "layouts.hpp"

#include <gtest/gtest.h>

namespace gpt::test {
namespace {

/// Some of what every layout is asked by whole_gpt_layouts.
TEST(Layouts, TrainAsOneProcess) {
  for (const auto& [name, options] : models()) {
    Options few = options;
    few.steps = 3;
    const Training alone = train_alone(few);
    Deviation worst;
    for (const int ranks : {2, 4, 6}) {
      const auto layouts = layouts_of(ranks, few);
      ASSERT_GE(layouts.size(), 4U);
      for (std::size_t i = 0; i < layouts.size(); i += 11) {
        few.job = layouts[i];
        worst.add(train_together(ranks, few, alone));
      }
    }
    EXPECT_GT(worst.runs, 10) << name;
    EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-12) << name << ", " << worst.of_loss;
  }
}

/// Whichever axis a rank belongs to, what it does otherwise shows.
TEST(Layouts, ShowWhatARankDoesOtherwise) {
  Options options = models().front().second;
  options.steps = 2;
  const Training alone = train_alone(options);
  for (const auto& [cp, tp] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}}) {
    options.job.layout.cp = cp;
    options.job.layout.tp = tp;
    const int changed = 4 - tp;  // the last one that has letters among its rows of the vocabulary
    const Deviation worst = train_together(4, options, alone, changed);
    EXPECT_GT(worst.gradient, 1e-6) << worst.of_gradient;
    EXPECT_GT(worst.loss, 1e-6) << worst.of_loss;
  }
}

}  // namespace
}  // namespace gpt::test
