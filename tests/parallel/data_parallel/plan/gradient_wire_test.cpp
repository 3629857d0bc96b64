#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/data_parallel/plan/gradient_wire.hpp>
#include <support/worlds.hpp>

#include "../../support/small.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::Small;

TEST(FeedBack, LosesNothingInTheLongRun) {
  for (const Codec codec : {Codec::Bf16, Codec::F16, Codec::Int8, Codec::F8E4M3}) {
    constexpr std::size_t kCount = 10'000;  // no whole number of pieces
    std::vector<float> residual(kCount);
    std::vector<double> given(kCount), sent(kCount);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        values[i] = i % 256 == 0 ? 1.0F : 1e-4F * static_cast<float>(i % 7);
        given[i] += static_cast<double>(values[i]);
      }
      feed_back(codec, values, residual);
      for (std::size_t i = 0; i < kCount; ++i) sent[i] += static_cast<double>(values[i]);
    }
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(sent[i] + static_cast<double>(residual[i]), given[i], 1e-4) << name_of(codec) << ", element " << i;
    // Beside the block's largest, 1, nothing else of the gradient would ever be sent in int8.
    if (codec == Codec::Int8) {
      EXPECT_GT(sent[6], given[6] / 2);
    }
  }
}

TEST(FeedBack, AnOverflowDoesNotSpoilLaterSteps) {
  for (const Codec codec : {Codec::F16, Codec::Int8, Codec::F8E4M3}) {
    std::vector<float> residual(300), values(300, 1.0F);
    values[7] = std::numeric_limits<float>::infinity();
    feed_back(codec, values, residual);
    EXPECT_FALSE(std::isfinite(values[7])) << "the step must be seen to be bad";
    EXPECT_TRUE(std::ranges::all_of(residual, [](float r) { return std::isfinite(r); }));
    std::ranges::fill(values, 1.0F);
    feed_back(codec, values, residual);
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::abs(v - 1) < 0.01F; }));
  }
}

/// One step: the gradient on all ranks is 1 for the first element of each block, little for the others.
void step(
    DataParallel& data, const std::function<void(Buffer parameter)>& look = [](Buffer) {}) {
  for (int u = 0; u < 2; ++u) {
    data.before_forward(u);
    look(data.parameter(u));
    data.after_forward(u);
  }
  for (int u = 2; u-- > 0;) {
    data.before_backward(u);
    const Buffer gradient = data.gradient(u);
    auto* g = reinterpret_cast<float*>(gradient.data);
    for (std::size_t i = 0; i < gradient.bytes / sizeof(float); ++i) g[i] += i % 256 == 0 ? 1.0F : 1e-3F;
    data.gradient_ready(u);
    data.after_backward(u);
  }
  for (const OwnedPart& part : data.finish_backward()) {
    auto* value = reinterpret_cast<float*>(part.value.data);
    const auto* g = reinterpret_cast<const float*>(part.gradient.data);
    for (std::int64_t i = 0; i < part.last - part.first; ++i) value[i] -= g[i];
  }
  data.updated();
}

/// After so many steps, of all elements of all parameters on this rank: farthest from where exact sums lead.
float farthest(DataParallel& data, int steps) {
  for (int i = 0; i < steps; ++i) step(data);
  const auto n = static_cast<float>(steps);
  float most = 0;
  step(data, [&](Buffer parameter) {
    const auto* v = reinterpret_cast<const float*>(parameter.data);
    for (std::size_t i = 0; i < parameter.bytes / sizeof(float); ++i)
      most = std::max(most, std::abs(v[i] - (i % 256 == 0 ? 1 - n : 1 - 1e-3F * n)));
  });
  return most;
}

std::vector<DataParameter> two_parameters() {
  return {{.path = "a", .elements = 1024, .unit = "a"}, {.path = "b", .elements = 2048, .unit = "b"}};
}

TEST(GradientWire, EveryRowArrives_WithFeedbackInInt8AsWell) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    on_threads(2, only("inproc"), [&](World& world) {
      const auto error = [&](const GradientWire& wire) {
        DataParallelOptions options{};
        options.wire = wire;
        Small small(world, row, two_parameters(), options);
        return farthest(*small.data, 100);
      };
      const auto show = [&](const char* what, float e) {
        return std::string(row) + ", " + what + ": " + std::to_string(e);
      };
      const float f16 = error({.codec = Codec::F16}), bf16 = error({.codec = Codec::Bf16});
      require(f16 < 1e-3F, show("f16", f16));
      require(bf16 < 1e-3F, show("bf16", bf16));
      // One scale is 1/127: a thousandth is never sent, and those of the others, or of all, are lost.
      const float lost = error({.codec = Codec::Int8});
      require(lost > 0.04F, show("int8 without feedback must lose the small ones", lost));
      const float kept = error({.codec = Codec::Int8, .error_feedback = true});
      require(kept < 0.02F, show("int8 with feedback", kept));
    });
  }
}

TEST(GradientWire, ResidualsAreCounted) {
  on_threads(2, only("inproc"), [&](World& world) {
    DataParallelOptions options{};
    options.wire = {.codec = Codec::Int8, .error_feedback = true};
    options.rebuild_buckets = false;
    Small small(world, "ddp", two_parameters(), options);
    step(*small.data);
    require(small.data->held().of(Purpose::Residual) == 3072 * sizeof(float), "a float for each gradient");
  });
}

TEST(GradientWire, SaysEverythingThatDoesNotSuit) {
  on_threads(2, only("inproc"), [](World& world) {
    std::vector<DataParameter> list = two_parameters();
    list[1].dtype = DType::BF16;
    DataParallelOptions options{};
    options.determinism = Determinism::Reproducible;
    options.wire.codec = Codec::Int8;
    const std::string what = complaint([&] { Small(world, "ddp", list, options); });
    require(what.find("codec int8 with determinism") != std::string::npos, what);
    require(what.find("'b' is of bf16, expected f32") != std::string::npos, what);
    options = {};
    options.wire.error_feedback = true;
    const std::string pointless = complaint([&] { Small(world, "ddp", two_parameters(), options); });
    require(pointless.find("error feedback without a codec") != std::string::npos, pointless);
  });
}

}  // namespace
}  // namespace sinew::parallel
