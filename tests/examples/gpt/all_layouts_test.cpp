
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "layouts.hpp"

namespace gpt::test {
namespace {

/// Every layout of 1, 2, 3, 4, 6 and 8 ranks trains as one process does. Prints a line per model: how many there were
/// and how far the worst was off.
TEST(AllLayouts, TrainAsOneProcess) {
  for (const auto& [name, options] : models()) {
    const Training alone = train_alone(options);
    Deviation worst;
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      Options one = options;
      for (const auto& job : layouts_of(ranks, options)) {
        one.job = job;
        worst.add(train_together(ranks, one, alone));
      }
    }
    fmt::print("layouts: {} runs, gradient {:.2g} ({}), loss {:.2g} ({}): {}\n", worst.runs, worst.gradient,
               worst.of_gradient, worst.loss, worst.of_loss, name);
    EXPECT_GT(worst.runs, 200) << name;
    EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-9) << name << ", " << worst.of_loss;
  }
}

}  // namespace
}  // namespace gpt::test
