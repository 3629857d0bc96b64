// gpt on fake devices: under every layout it has the gradients and losses of one process on the host.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fakes/fake_device.hpp"
#include "layouts.hpp"

namespace gpt::test {
namespace {

/// The models that can be on a device.
std::vector<std::pair<std::string, Options>> models_for_devices() {
  auto all = models();
  std::erase_if(all, [](const auto& model) {
    const Shape& shape = model.second.shape;
    return shape.experts.count > 0 || shape.has_scans() || shape.sinks;
  });
  return all;
}

/// Trains every so many of the layouts, and returns how many that were.
int expect_one_process(const std::vector<int>& all_ranks, std::size_t every) {
  int runs = 0;
  std::size_t number = 0;
  for (auto [name, options] : models_for_devices()) {
    options.steps = 2;
    const Training alone = train_alone(options);
    Deviation worst;
    for (const int ranks : all_ranks) {
      for (const auto& job : layouts_of(ranks, options)) {
        if (number++ % every != 0) continue;
        options.job = job;
        worst.add(train_on_devices(ranks, options, alone));
      }
    }
    runs += worst.runs;
    EXPECT_LT(worst.gradient, 1e-12) << name << ", " << worst.of_gradient;
    EXPECT_LT(worst.loss, 1e-12) << name << ", " << worst.of_loss;
  }
  return runs;
}

TEST(Devices, TrainAsOneProcess) {
  sinew::fake::pause_after(64);
  EXPECT_GE(expect_one_process({1, 2, 3, 4, 8}, 4), 60);
}

}  // namespace
}  // namespace gpt::test
