#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/expert/expert_load.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

std::vector<double> some(std::size_t n, const char* name) {
  const KeyedRandom random(7, name);
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = random.normal(i);
  return values;
}

TEST(Router, TakesTheBest_OfEqualsTheFirst) {
  const Router<double> router({.name = "r", .experts = 5, .top_k = 2});
  const std::vector<double> logits{1, 3, 2, 3, 0, /**/ 2, 2, 2, 2, 2, /**/ 0, 1, 2, 3, 4};
  const auto r = router.route(logits, 3);
  EXPECT_EQ(r.routing.experts, (std::vector<std::int32_t>{1, 3, 0, 1, 3, 4}));
  EXPECT_EQ(r.routing.gates[0], 0.5);
  EXPECT_EQ(r.routing.gates[2], 0.5);
  EXPECT_NEAR(r.routing.gates[5], 1 / (1 + std::exp(-1.0)), 1e-15);  // a softmax over the chosen
}

TEST(Router, AddsABiasForTheChoiceOnly) {
  const Router<double> router(
      {.name = "r", .experts = 3, .top_k = 1, .score = RouterScore::Sigmoid, .normalised = false, .scale = 2});
  const std::vector<double> logits{0, 1, 2}, bias{0.5, 0, 0};
  EXPECT_EQ(router.route(logits, 1).routing.experts[0], 2);
  const auto r = router.route(logits, 1, bias);
  EXPECT_EQ(r.routing.experts[0], 0);
  EXPECT_EQ(r.routing.gates[0], 1);  // 2 * sigmoid(0)
}

/// Groups count by the sum of their best two: {0.9, 0.8} before {0.95, 0.1} and {0.7, 0.7}.
TEST(Router, GoesToTheBestGroupsOnly) {
  const Router<double> router(
      {.name = "r", .experts = 6, .top_k = 2, .score = RouterScore::Sigmoid, .groups = 3, .chosen_groups = 1});
  std::vector<double> logits;
  for (const double p : {0.9, 0.8, 0.95, 0.1, 0.7, 0.7}) logits.push_back(std::log(p / (1 - p)));
  EXPECT_EQ(router.route(logits, 1).routing.experts, (std::vector<std::int32_t>{0, 1}));
}

TEST(Router, NamesWhatIsNoNumber) {
  const Router<float> router({.name = "r", .experts = 3, .top_k = 1});
  std::vector<float> logits{0, 1, 2, 3, 4, 5};
  logits[4] = std::numeric_limits<float>::quiet_NaN();
  const auto r = router.route(logits, 2);
  ASSERT_TRUE(r.routing.fault);
  EXPECT_EQ(r.routing.fault->token, 1);
  EXPECT_EQ(r.routing.fault->expert, 1);
}

/// Scores that are all too small to be numbers: shares of them are not.
TEST(Router, GivesFiniteGates_WhateverFiniteLogitsThereAre) {
  for (const RouterScore score : {RouterScore::Softmax, RouterScore::Sigmoid}) {
    const Router<float> router({.name = "r", .experts = 3, .top_k = 2, .score = score});
    const std::vector<float> logits{-1000, -1000, -1000, 0, -120, -120};
    const std::vector<double> bias{0, 2, 2};
    const Routed<float> routed = router.route(logits, 2, bias);
    ASSERT_FALSE(routed.routing.fault);
    EXPECT_THAT(routed.routing.gates, ::testing::Each(0.5F));
    const std::vector<float> dgates{1, 0, 0, 2};
    const std::vector<double> pull{1, 2, 3};
    const std::vector<std::int32_t> sequence{0, 0};
    std::vector<float> dlogits(6);
    router.backward(routed, dgates, 1, pull, sequence, dlogits);
    for (const float d : dlogits) EXPECT_TRUE(std::isfinite(d));
    EXPECT_NE(dlogits[1], 0) << "shares of tiny scores have gradients";
  }
}

TEST(Router, RefusesABiasThatIsNoNumber) {
  const Router<double> router({.name = "r", .experts = 2});
  const std::vector<double> logits{0, 1}, bias{0, std::nan("")};
  EXPECT_THAT(test::complaint([&] { static_cast<void>(router.route(logits, 1, bias)); }),
              ::testing::HasSubstr("'r': a bias of 0, nan"));
}

TEST(Router, SaysAllThatDoesNotFit) {
  const auto why = [](const RouterShape& shape) -> std::string {
    try {
      Router<double>{shape};
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(why({.name = "r", .experts = 4, .top_k = 5}).find("top 5 of the 4 experts"), std::string::npos);
  EXPECT_NE(why({.name = "r", .experts = 6, .top_k = 3, .groups = 3, .chosen_groups = 1}).find("expected 1 to 2"),
            std::string::npos);
  const std::string many =
      why({.name = "r", .experts = 6, .top_k = 1, .scale = 0, .groups = 4, .chosen_groups = 9, .z = -1});
  for (const char* part : {"'r'", "4 groups", "9 groups chosen", "scale 0", "z -1"})
    EXPECT_NE(many.find(part), std::string::npos) << many;
  EXPECT_EQ(why({.name = "r", .experts = 6, .top_k = 2, .groups = 3, .chosen_groups = 1}), "");
}

class RouterGradients : public ::testing::TestWithParam<RouterShape> {};

/// Of sum(weights * gates) + pull * probabilities + z, by central differences.
TEST_P(RouterGradients, AreThoseOfFiniteDifferences) {
  const RouterShape shape = GetParam();
  const Router<double> router(shape);
  const std::int64_t tokens = 6;
  const auto experts = static_cast<std::size_t>(shape.experts), k = static_cast<std::size_t>(shape.top_k);
  std::vector<double> logits = some(6 * experts, "logits");
  const std::vector<double> weights = some(6 * k, "weights"), pull = some(2 * experts, "pull");
  const std::vector<std::int32_t> sequence{0, 0, 1, 1, 1, 0};
  const auto loss = [&] {
    const auto r = router.route(logits, tokens);
    double sum = r.z_loss;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * r.routing.gates[i];
    for (std::size_t t = 0; t < 6; ++t) {
      double all = 0;
      for (std::size_t e = 0; e < experts; ++e) all += r.scores[t * experts + e];
      for (std::size_t e = 0; e < experts; ++e)
        sum += pull[static_cast<std::size_t>(sequence[t]) * experts + e] * r.scores[t * experts + e] / all;
    }
    return 3 * sum;
  };
  std::vector<double> scaled = weights, gradient(logits.size());
  for (double& w : scaled) w *= 3;
  router.backward(router.route(logits, tokens), scaled, 3, pull, sequence, gradient);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double before = logits[i];
    logits[i] = before + kStep;
    const double above = loss();
    logits[i] = before - kStep;
    const double below = loss();
    logits[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RouterGradients,
    ::testing::Values(RouterShape{.name = "softmax", .experts = 5, .top_k = 2},
                      RouterShape{
                          .name = "plain", .experts = 4, .top_k = 3, .normalised = false, .scale = 2.5, .z = 0.01},
                      RouterShape{.name = "sigmoid", .experts = 6, .top_k = 2, .score = RouterScore::Sigmoid, .z = 0.1},
                      RouterShape{.name = "groups",
                                  .experts = 8,
                                  .top_k = 4,
                                  .score = RouterScore::Sigmoid,
                                  .normalised = true,
                                  .scale = 1.5,
                                  .groups = 4,
                                  .chosen_groups = 2},
                      RouterShape{.name = "one", .experts = 3, .top_k = 1, .normalised = false}),
    [](const auto& of) { return of.param.name; });

TEST(ExpertLoad, IsFollowedByBiases) {
  ExpertLoad load(4);
  EXPECT_EQ(load.imbalance(), 0);
  load.counts()[0] = 6;
  load.counts()[2] = 2;
  load.counts()[3] = 0;
  EXPECT_EQ(load.imbalance(), 3);
  EXPECT_EQ(load.busiest(), 0);
  std::vector<double> bias(4);
  balance_by_bias(load, 0.25, bias);
  EXPECT_EQ(bias, (std::vector<double>{-0.25, 0.25, 0, 0.25}));
  EXPECT_THROW(balance_by_bias(load, 1, std::span(bias).first(3)), Error);
}

}  // namespace
}  // namespace sinew::parallel
