#include <cstdint>

#include <gtest/gtest.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/planner/model/activations.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/planner.hpp>

/// What papers say, in their numbers: written here by hand.
namespace sinew::parallel {
namespace {

PlanQuestion gpt2_on_64() {
  PlanQuestion q;
  q.model = named_model("gpt2");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x8"));
  q.precision.gradient = DType::BF16;  // as in the paper
  return q;
}

std::int64_t held(int zero, DType gradient = DType::BF16) {
  PlanQuestion q = gpt2_on_64();
  q.precision.gradient = gradient;
  Planner planner(q);
  JobConfig config;
  config.zero = zero;
  config.precision = q.precision;
  config.global_batch = planner.question().global_batch;
  EXPECT_TRUE(planner.violations(config).empty());
  const PlannedMemory m = planner.memory(config);
  return m.parameters + m.gradients + m.optimizer;
}

/// Of 124,439,808 parameters: 16P, 4P + 12P/64, 2P + 14P/64, 16P/64. Shards end in some padding.
/// Source: Rajbhandari et al., arXiv 1910.02054, figure 1.
TEST(Formulas, OfZero) {
  EXPECT_EQ(held(0), 1'991'036'928);
  EXPECT_NEAR(static_cast<double>(held(1)), 521'091'696, 521'091'696 * 1e-3);
  EXPECT_NEAR(static_cast<double>(held(2)), 276'100'824, 276'100'824 * 1e-3);
  EXPECT_NEAR(static_cast<double>(held(3)), 31'109'952, 31'109'952 * 1e-3);
  EXPECT_EQ(held(0, DType::F32), 2'239'916'544);  // 18P with gradients of f32, as Megatron has it
}

LayerActivations gpt3_layer(Recompute recompute, bool sequence_parallel, int tp = 8) {
  return layer_activations(named_model("gpt3-175b"), 0,
                           {.samples = 1,
                            .sequence = 2048,
                            .tp = tp,
                            .sequence_parallel = sequence_parallel,
                            .attention = AttentionMemory::Stored},
                           recompute);
}

/// s 2048, b 1, h 12288, a 96: sbh is 25,165,824 and 5as/h is 80.
/// Source: Korthikanti et al., arXiv 2205.05198, table 2.
TEST(Formulas, OfActivations) {
  EXPECT_EQ(gpt3_layer(Recompute::None, false, 1).kept, 25'165'824.0 * (34 + 80));
  EXPECT_EQ(gpt3_layer(Recompute::None, false).kept, 25'165'824.0 * 23);      // 10 + 24/8 + 80/8
  EXPECT_EQ(gpt3_layer(Recompute::None, true).kept, 25'165'824.0 * 114 / 8);  // (34 + 80) / 8
  EXPECT_EQ(gpt3_layer(Recompute::Selective, true).kept, 25'165'824.0 * 34 / 8);
  EXPECT_EQ(gpt3_layer(Recompute::Selective, false).kept, 25'165'824.0 * 13);  // 10 + 24/8
  EXPECT_EQ(gpt3_layer(Recompute::Full, false).kept, 50'331'648.0);            // 2sbh
  EXPECT_EQ(gpt3_layer(Recompute::Full, false).made_again, gpt3_layer(Recompute::None, false).kept);
}

/// 4sbh(1 + v/h)/t behind the last layer, of which a rank's logits are 4sbv/t. Source: the same, section 4.3.
TEST(Formulas, OfTheHead) {
  const LayerInput in{.samples = 1, .sequence = 2048, .tp = 8, .sequence_parallel = true};
  EXPECT_EQ(output_activations(named_model("gpt3-175b"), in), 4 * 25'165'824.0 / 8 + 4 * 2048.0 * 50257 / 8);
}

/// 72 l h^2 (1 + s/(6h) + V/(12 l h)) of a token: 1,043,677,052,928 + 28,991,029,248 + 3,705,348,096.
/// Source: Narayanan et al., arXiv 2104.04473, appendix, without recomputation.
TEST(Formulas, OfOperations) {
  EXPECT_EQ(model_flops_of_token(named_model("gpt3-175b"), 2048), 1'076'373'430'272.0);
  // 6ND: of 8,030,261,248 parameters all but the table of 525,336,576 and 65 norms of 4,096 multiply; and 12 l h s.
  EXPECT_EQ(model_flops_of_token(named_model("llama3-8b"), 8192),
            6.0 * (8'030'261'248 - 525'336'576 - 65 * 4096) + 12.0 * 32 * 4096 * 8192);
}

PipelineCosts uniform(int stages, std::int64_t forward = 1, std::int64_t backward = 2) {
  return {.stages = std::vector<StageCosts>(static_cast<std::size_t>(stages), {forward, backward, 1, 1, 0})};
}

double idle_over_ideal(const ScheduleShape& shape) {
  const std::int64_t ideal = std::int64_t{3} * shape.micro_batches * shape.virtual_stages;
  const PipelineCosts costs = uniform(shape.ranks * shape.virtual_stages);
  PipelineMakespans simulated;
  EXPECT_EQ(simulated.makespan(shape, costs), least_makespan(shape, costs));
  return static_cast<double>(least_makespan(shape, costs) - ideal) / static_cast<double>(ideal);
}

/// (p-1)/m and (p-1)/(m v): 7/32, 7/64, 7/128, 63/512. Source: Narayanan et al., arXiv 2104.04473, section 2.2.
TEST(Formulas, OfBubbles) {
  EXPECT_DOUBLE_EQ(idle_over_ideal({"1f1b", 8, 32, 1}), 0.21875);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"gpipe", 8, 32, 1}), 0.21875);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"interleaved", 8, 32, 2}), 0.109375);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"interleaved", 8, 32, 4}), 0.0546875);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"looped-bfs", 8, 32, 4}), 0.0546875);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"1f1b", 64, 512, 1}), 0.123046875);
  // A third of it. Source: Qi et al., arXiv 2401.10241.
  EXPECT_DOUBLE_EQ(idle_over_ideal({"zb-h1", 8, 32, 1}), 7.0 / 96);
  // Half of that, of stages that are half as large.
  EXPECT_DOUBLE_EQ(idle_over_ideal({"zb-v", 8, 32, 2}), 7.0 / 192);
  EXPECT_DOUBLE_EQ(idle_over_ideal({"dualpipev", 8, 32, 2}), 7.0 / 192);
}

/// The first stage of an interleaved schedule keeps 1 + (p-1)/(p v) times what it would of 1f1b. Source: the same.
TEST(Formulas, OfLiveActivations) {
  EXPECT_EQ(live_stages({"interleaved", 8, 64, 2}).by_rank[0], 2 * 8 + 7);
  EXPECT_EQ(live_stages({"1f1b", 8, 64, 1}).by_rank[0], 8);
  EXPECT_EQ(live_stages({"1f1b", 8, 64, 1}).by_rank[7], 1);
  EXPECT_EQ(live_stages({"gpipe", 8, 64, 1}).by_rank[7], 64);
  EXPECT_EQ(live_stages({"interleaved", 8, 64, 2}).outputs, 1);
  EXPECT_EQ(live_stages({"looped-bfs", 8, 64, 2}).outputs, 64);
}

std::int32_t most_at_once(const std::vector<Action>& actions, const auto& counts) {
  std::int32_t now = 0, most = 0;
  for (const Action& a : actions) {
    if (!counts(a)) continue;
    if (a.kind == ActionKind::Forward) most = std::max(most, ++now);
    if (a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient) --now;
  }
  return most;
}

LiveStages counted(const PipelineSchedule& schedule) {
  LiveStages live;
  for (const auto& actions : schedule.actions)
    live.by_rank.push_back(most_at_once(actions, [](const Action&) { return true; }));
  const auto last = static_cast<std::size_t>(schedule.rank_of.back());
  live.outputs =
      most_at_once(schedule.actions[last], [&](const Action& a) { return a.stage == schedule.stages() - 1; });
  return live;
}

/// Where there is a formula it is what the generator's actions say; and no schedule ends before least_makespan,
/// whatever its stages cost.
TEST(PipelineCosts, AgreeWithTheGenerators_AndBoundTheSimulator) {
  PipelineMakespans simulated;
  for (const NamedGenerator& g : generators()) {
    for (int p = 2; p <= 8; ++p) {
      for (int v = g.least_virtual_stages; v <= g.virtual_stages(3); ++v) {
        for (const int m : {1, 2, 3, 4, 6, 8, 12, 16, 24}) {
          const ScheduleShape shape{std::string(g.name), p, m, v};
          ASSERT_EQ(live_stages(shape), counted(make_schedule(g.name, p, m, v))) << g.name << p << m << v;
          const PipelineCosts even = uniform(p * v, 100, 200);
          if (m >= p) {
            ASSERT_GE(simulated.makespan(shape, even), least_makespan(shape, even));
          }
          PipelineCosts uneven = uniform(p * v);
          for (int s = 0; s < p * v; ++s) {
            const std::int64_t f = 50 + (s * 37 + 11 * p + m) % 60;
            uneven.stages[static_cast<std::size_t>(s)] = {f, 2 * f, f, f, 0};
          }
          uneven.latency = 7;
          ASSERT_GE(simulated.makespan(shape, uneven), least_makespan(shape, uneven)) << g.name << p << m << v;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
