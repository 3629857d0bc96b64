// Plans of recomputation by layers, and of activations and shards in a store.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>

namespace sinew::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

PlanQuestion of_gpt2() {
  PlanQuestion q;
  q.model = named_model("gpt2");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x1"));
  q.global_batch = 64;
  return q;
}

PlannedLayout planned_by(const PlanQuestion& q, const std::string& layout) {
  Planner planner(q);
  const JobConfig config = layout_from_text(planner.question(), layout);
  EXPECT_EQ(to_string(planner.violations(config)), "");
  return planner.plan(config);
}

/// The name of all layers is the policy of the layout itself, and a longer name counts more.
TEST(RecomputedLayersPlan, TreatsLayersOneByOne) {
  PlanQuestion q = of_gpt2();
  const PlannedLayout none = planned_by(q, "micro-batch=2"), full = planned_by(q, "micro-batch=2,recompute=full");
  q.recomputed = {{"layers", Recompute::Full}};
  const PlannedLayout all = planned_by(q, "micro-batch=2");
  EXPECT_EQ(all.memory.activations, full.memory.activations);
  EXPECT_EQ(all.time.total(), full.time.total());
  // Three of 12 layers keep everything. A layer that keeps its input alone has 2sbh bytes.
  q.recomputed = {{"layers.1", Recompute::None},
                  {"layers", Recompute::Full},
                  {"layers.2", Recompute::None},
                  {"layers.11", Recompute::None}};
  const PlannedLayout some = planned_by(q, "micro-batch=2");
  const double input = 2.0 * 1024 * 2 * 768;
  const double layer =
      (static_cast<double>(none.memory.activations - full.memory.activations) + 11 * input) / 11 - input;
  EXPECT_NEAR(static_cast<double>(some.memory.activations - full.memory.activations), 3 * (layer),
              1e-3 * layer + 3 * input);
  EXPECT_DOUBLE_EQ(some.time.passes.again, full.time.passes.again * 9 / 12);
}

/// Korthikanti et al., arXiv 2205.05198, table 2: a layer keeps sbh (34 + 5as/h) bytes, of which none stay here. On
/// their way are those of the layer that computes, and the window.
TEST(OffloadPlan, MovesActivationsToTheStore) {
  PlanQuestion q = of_gpt2();
  q.attention = AttentionMemory::Stored;
  const PlannedLayout plain = planned_by(q, "micro-batch=8");
  q.offloaded_activations = {"layers"};
  q.store = {.bytes_per_s = 50e9, .window_bytes = 64 << 20};
  const PlannedLayout moved = planned_by(q, "micro-batch=8");
  const double layer = 1024.0 * 8 * 768 * (34 + 5 * 12 * 1024 / 768.0);
  EXPECT_EQ(moved.memory.stored, static_cast<std::int64_t>(12 * layer));
  EXPECT_EQ(plain.memory.stored, 0);
  EXPECT_EQ(plain.memory.activations - moved.memory.activations,
            static_cast<std::int64_t>(11 * layer) - q.store.window_bytes);
  // Both ways, for each of the micro-batches.
  const double copies = 2 * 12 * layer / 50e9;
  EXPECT_NEAR(moved.time.passes.offload + moved.time.passes.hidden, copies, 1e-9 * copies);
  EXPECT_NEAR(moved.time.total() - plain.time.total(), moved.time.passes.offload, 1e-9);
  // With a link so fast that only the arrays of the first layer of a backward pass are waited for.
  q.store.bytes_per_s = 1e15;
  const PlannedTime fast = planned_by(q, "micro-batch=8").time;
  EXPECT_NEAR(fast.passes.offload, layer / 1e15, 1e-6 * layer / 1e15);
  q.offloaded_activations = {"layers.0", "layers.5"};
  EXPECT_EQ(planned_by(q, "micro-batch=8").memory.stored, static_cast<std::int64_t>(2 * layer));
}

/// In a pipeline, the store has the microbatches in flight: 4 on the first of 4 ranks, each of 3 layers.
TEST(OffloadPlan, StoresAllMicrobatchesInFlight) {
  PlanQuestion q = of_gpt2();
  q.offloaded_activations = {"layers"};
  q.store.bytes_per_s = 50e9;
  const PlannedLayout one = planned_by(q, "pp=1,micro-batch=1"), four = planned_by(q, "pp=4,micro-batch=1");
  EXPECT_EQ(four.memory.stored, one.memory.stored / 12 * 3 * 4);
}

/// ZeRO: of P parameters, N ranks hold 2P/N, 4P/N of f32 gradients and 12P/N of Adam's state.
TEST(OffloadPlan, MovesShardsToTheStore) {
  PlanQuestion q = of_gpt2();
  const PlannedLayout plain = planned_by(q, "zero=3,micro-batch=2");
  q.offloads_shards = true;
  q.store.bytes_per_s = 25e9;
  const PlannedLayout moved = planned_by(q, "micro-batch=2");
  const double shard = 18.0 * 124'439'808 / 8;
  EXPECT_NEAR(static_cast<double>(moved.memory.stored), shard, 1e-3 * shard);
  EXPECT_EQ(moved.memory.parameters + moved.memory.gradients + moved.memory.optimizer, 0);
  EXPECT_EQ(moved.memory.total() + moved.memory.stored, plain.memory.total());
  EXPECT_NEAR(moved.time.data.optimizer, 30.0 * 124'439'808 / 8 / 25e9, 1e-4);
  EXPECT_GE(moved.time.total(), plain.time.total());
  Planner planner(q);
  EXPECT_THAT(to_string(planner.violations(layout_from_text(planner.question(), "zero=1"))),
              HasSubstr("offload: shards in a store with zero 1, which keeps whole parameters; expected zero 3"));
  for (const PlannedLayout& p : search(planner, {.top = 50}).best) {
    EXPECT_EQ(p.config.zero, 3);
    EXPECT_GT(p.memory.stored, 0);
  }
}

/// A model that does not fit into the memory of a rank fits into the memory and the store. A small store is a limit.
TEST(OffloadPlan, LetsLargerModelsFit) {
  PlanQuestion q = of_gpt2();
  q.model = named_model("gpt2-xl");
  q.cluster.memory_bytes = std::int64_t{2} << 30;
  Planner plain(q);
  EXPECT_TRUE(search(plain).best.empty());
  q.offloads_shards = true;
  q.offloaded_activations = {"layers"};
  q.store.bytes_per_s = 25e9;
  Planner moved(q);
  const PlanResult found = search(moved);
  ASSERT_FALSE(found.best.empty());
  q.store.bytes = found.best.front().memory.stored / 4;
  Planner little(q);
  const PlanResult refused = search(little);
  EXPECT_LT(refused.fitting, found.fitting);
  EXPECT_TRUE(
      std::ranges::any_of(refused.losers, [](const LoserClass& c) { return c.limit.starts_with("store with"); }));
}

TEST(OffloadPlan, SaysWhatIsMissing) {
  const auto refusal = [](const auto& change) -> std::string {
    PlanQuestion q = of_gpt2();
    change(q);
    try {
      static_cast<void>(Planner(q));
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.offloads_shards = true; }),
              HasSubstr("offload to a store of 0 bytes a second, expected the rate of a rank's copies"));
  EXPECT_THAT(refusal([](PlanQuestion& q) { q.offloaded_activations = {"layers.3"}; }),
              HasSubstr("a store of 0 bytes"));
  EXPECT_THAT(refusal([](PlanQuestion& q) {
                q.offloaded_activations = {"layers.12"};
                q.store.bytes_per_s = 1e9;
              }),
              HasSubstr("offload of activations: 'layers.12' names no layer, expected 'layers', or 'layers.0' to "
                        "'layers.11'"));
  EXPECT_THAT(refusal([](PlanQuestion& q) {
                q.recomputed = {{"blocks", Recompute::Full}};
              }),
              HasSubstr("recomputation: 'blocks' names no layer"));
}

/// Schedules that compute gradients of weights later need what a recomputed layer does not keep, in a list, too.
TEST(RecomputedLayersPlan, KeepsTheRulesOfSchedules) {
  PlanQuestion q = of_gpt2();
  q.recomputed = {{"layers.4", Recompute::Full}};
  Planner planner(q);
  EXPECT_THAT(to_string(planner.violations(layout_from_text(planner.question(), "pp=2,schedule=zb-h1"))),
              AllOf(HasSubstr("schedule"), HasSubstr("recompute full")));
}

}  // namespace
}  // namespace sinew::parallel
