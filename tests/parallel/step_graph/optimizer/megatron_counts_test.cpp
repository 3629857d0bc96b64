#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/step_graph/check.hpp>
#include <sinew/parallel/step_graph/optimizer/optimize.hpp>
#include <sinew/parallel/step_graph/placed/check_placements.hpp>
#include <sinew/parallel/step_graph/placed/same_values.hpp>
#include <sinew/parallel/step_graph/placed/traffic.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>
#include <sinew/parallel/tensor/layer_step.hpp>

#include "../placed/simulated_ranks.hpp"

namespace sinew::parallel {
namespace {

// A transformer layer as Megatron-LM runs it under tensor and sequence parallelism has these exchanges (Korthikanti et
// al., arXiv 2205.05198, figure 5): forward two all-gathers and two reduce-scatters, backward the same, and two more
// all-gathers there, because each rank saves its own rows of the inputs of linear layers only.

const Factorisation kLayerMesh({{"tp", 4}});
constexpr std::int64_t kLayerRows = 8, kLayerWidth = 16, kHidden = 32, kHeads = 4;

LayerGraph model(int layers) {
  LayerGraph g(kLayerMesh, {.sequence_parallel = true, .dtype = DType::F64});
  TensorId x = g.rows("x", kLayerRows, kLayerWidth);
  for (int i = 0; i < layers; ++i) {
    const std::string name = fmt::format("layer {} ", i);
    x = g.residual(name + "first", x, g.attention_block(name + "attention", g.norm(name + "norm1", x), kHeads));
    x = g.residual(name + "second", x, g.mlp(name + "mlp", g.norm(name + "norm2", x), kHidden));
  }
  g.output("out", x);
  return g;
}

struct BothCounts {
  StepTraffic forward, backward;
};
BothCounts counts_of(const StepGraph& graph) {
  const auto given = std::ranges::find_if(
      graph.nodes, [](const Node& n) { return n.kind == NodeKind::Signal && n.name == "gradient of out"; });
  const auto middle = static_cast<std::size_t>(given - graph.nodes.begin());
  return {traffic_of(graph, kLayerMesh, 0, middle), traffic_of(graph, kLayerMesh, middle, graph.nodes.size())};
}

class MegatronCounts : public testing::TestWithParam<int> {};

TEST_P(MegatronCounts, AreReachedFromOneRedistributionPerOperation) {
  const int layers = GetParam();
  const LayerGraph written = model(layers);
  const StepGraph naive = with_backward(written.graph(), kLayerMesh);
  const BothCounts before = counts_of(naive);
  EXPECT_EQ(before.forward.exchanges(), 16 * layers) << "q, k, v, attention, out, up, gelu and down have their own";
  EXPECT_EQ(before.backward.exchanges(), 18 * layers);

  const OptimizedComputes step = layer_step(written, {.merge = ByteBuckets{}, .saved_bytes = 0});
  ASSERT_EQ(check_placements(step.computes, kLayerMesh), "");
  ASSERT_EQ(same_values(naive, step.computes, kLayerMesh), "");
  ASSERT_EQ(check(step.graph), "");
  const BothCounts after = counts_of(step.computes);
  EXPECT_EQ(after.forward.all_gathers, 2 * layers) << step.computes.to_string();
  EXPECT_EQ(after.forward.reduce_scatters, 2 * layers);
  EXPECT_EQ(after.forward.exchanges(), 4 * layers);
  EXPECT_EQ(after.backward.all_gathers, (2 + 2) * layers) << "two of gradients, and two of saved inputs";
  EXPECT_EQ(after.backward.reduce_scatters, 2 * layers);
  // Each norm's gain has a sum over the ranks, which have different rows. Megatron-LM adds them up after the step, all
  // together. The graph that runs does the same.
  EXPECT_EQ(after.backward.all_reduces, 2 * layers);
  EXPECT_EQ(after.backward.all_to_alls, 0);
  EXPECT_EQ(std::ranges::count(step.graph.nodes, NodeKind::AllReduce, &Node::kind), 1) << step.graph.to_string();
  std::printf(
      "megatron counts: %d layers, forward %d + %d, backward %d + %d and %d again, %d sums of gains in 1; naive %d\n",
      layers, after.forward.all_gathers, after.forward.reduce_scatters, 2 * layers, after.backward.reduce_scatters,
      after.backward.all_gathers - 2 * layers, after.backward.all_reduces,
      before.forward.exchanges() + before.backward.exchanges());

  const std::vector<test::Array> given = test::given(naive, 5);
  const test::ReadOnRanks expected = test::expected_on_ranks(naive, kLayerMesh, test::run_whole(naive, given));
  EXPECT_LT(test::worst(test::run_simulated(step.computes, step.graph, kLayerMesh, given), expected), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(OneAndFourLayers, MegatronCounts, testing::Values(1, 4));

TEST(MegatronCounts, SavedInputsAreKeptAsFarAsThereIsRoom) {
  const LayerGraph written = model(2);
  constexpr std::int64_t kGathered = kLayerRows * kLayerWidth * 8;
  for (const std::int64_t kept : {0, 1, 3, 4}) {
    const OptimizedComputes step = layer_step(written, {.saved_bytes = kept * kGathered});
    EXPECT_EQ(counts_of(step.computes).backward.all_gathers, 4 + 4 - kept) << "two layers gather two inputs each";
    const auto is_again = [](const ExchangeEntry& e) {
      return e.change == ExchangeChange::Added && e.why.starts_with("the backward pass reads it");
    };
    EXPECT_EQ(std::ranges::count_if(step.report.entries, is_again), 4 - kept) << step.report.to_string(step.graph);
  }
}

TEST(MegatronCounts, OfManyLayersTakeTimeInProportion) {
  const auto seconds_of = [](int layers) {
    const LayerGraph written = model(layers);
    const auto begin = std::chrono::steady_clock::now();
    const OptimizedComputes step = layer_step(written, {.merge = ByteBuckets{}, .saved_bytes = 0});
    EXPECT_EQ(counts_of(step.computes).backward.all_gathers, 4 * layers);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double few = seconds_of(6), many = seconds_of(24);
  std::printf("24 layers: %.2f s\n", many);
  EXPECT_LT(many, 10 * few + 0.5) << "four times as many layers";
}

}  // namespace
}  // namespace sinew::parallel
