// Plans of pipelines whose stages are gathered and summed as the schedule says, beside a real job of these parameters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/job/predicted_memory.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/pipeline/verify/stage_memory.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>
#include <sinew/parallel/planner/search/layout_text.hpp>
#include <sinew/parallel/planner/search/search.hpp>
#include <support/worlds.hpp>

#include "../../support/adding_stages.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::AddingStages;
using testing::HasSubstr;

/// Four ranks. The lengths of all parameters are multiples of 64 bytes, so shards need no padding.
PlanQuestion of_eight_layers() {
  PlanQuestion q;
  q.model = {.name = "small",
             .layers = 8,
             .hidden = 64,
             .heads = 4,
             .feed_forward = 256,
             .vocabulary = 128,
             .context = 32,
             .biases = true};
  q.cluster = cluster_spec(virtual_cluster_from("xeon-2sx2"), {.memory_bytes = std::int64_t{1} << 30});
  q.global_batch = 16;
  q.stage_actions = true;
  return q;
}

JobConfig laid_out(Planner& planner, const std::string& text) {
  JobConfig config = layout_from_text(planner.question(), text);
  config.precision = {DType::F32, DType::F32, DType::F32};
  return config;
}

PlannedMemory of_rank(const MemoryPlan& plan, const HeldBytes& held) {
  const auto most = [&](Purpose p) { return static_cast<std::int64_t>(held.most_of(p)); };
  EXPECT_LE(held.most_of(Purpose::Underway), plan.of(Purpose::Underway));
  return {most(Purpose::Parameter), most(Purpose::Gradient), most(Purpose::Optimizer), most(Purpose::Underway), 0};
}

/// Two steps of a real job hold what the planner says of each rank.
void require_held(const std::string& layout) {
  PlanQuestion q = of_eight_layers();
  Planner planner(q);
  const JobConfig config = laid_out(planner, layout);
  ASSERT_EQ(to_string(planner.violations(config)), "") << layout;
  std::vector<PlannedMemory> held(4);
  on_threads(4, only("inproc"), [&](World& world) {
    const EngineFacts facts = planned_engine(planner.question());
    Job job(world, config, facts, [](const InitialPart& part) { part.fill([](std::int64_t) { return 1.0; }); });
    AddingStages engine(job, facts);
    PipelineRunner runner(job.pipeline(), job.schedule(), engine, {&job.data().protocol()});
    Optimizer adam(job.data().memory(), AdamOptions{});
    for (int step = 0; step < 2; ++step) {
      runner.run();
      adam.update(job.data().finish_backward());
      job.data().updated();
    }
    held[static_cast<std::size_t>(world.rank())] = of_rank(job.data().planned(), job.data().held());
  });
  const std::vector<PlannedMemory> planned = HeldPlans(planner.question()).by_rank(config);
  const std::vector<PlannedMemory> least = HeldPlans(planner.question()).least_by_rank(config);
  for (std::size_t r = 0; r < held.size(); ++r) {
    const PlannedMemory& plan = planned[r / 2];
    EXPECT_EQ(held[r].parameters, plan.parameters) << layout;
    EXPECT_EQ(held[r].gradients, plan.gradients) << layout;
    EXPECT_EQ(held[r].optimizer, plan.optimizer) << layout;
    EXPECT_LE(held[r].underway, plan.underway) << layout;
    EXPECT_GE(held[r].underway * 100, plan.underway * 95) << layout;
    EXPECT_LE(least[r / 2].total(), plan.total()) << layout;
  }
}

TEST(StageActionsPlan, SaysWhatAJobHolds) {
  for (const char* schedule : {"1f1b", "interleaved,virtual-stages=2", "zb-v", "dualpipev"}) {
    for (const char* zero : {"1", "2", "3"})
      require_held(std::string("pp=2,micro-batch=2,schedule=") + schedule + ",zero=" + zero);
  }
  require_held("pp=2,micro-batch=2,schedule=interleaved,virtual-stages=4,zero=3,budget=600000");
}

/// The bytes that exist only during a part of the step are those that the proof of the schedule's memory counts.
TEST(StageActionsPlan, HoldsWhatTheScheduleIsProvedToHold) {
  Planner planner(of_eight_layers());
  for (const char* budget : {"0", "600000"}) {
    const JobConfig config = laid_out(
        planner, std::string("pp=2,micro-batch=2,schedule=interleaved,virtual-stages=4,zero=3,budget=") + budget);
    ASSERT_EQ(to_string(planner.violations(config)), "");
    const ShardingChoice& choice = planner.sharding(config);
    // A layer has 12 * 64^2 + 11 * 64 elements; the first stage has the table too, the last one a norm and the head.
    std::vector<StageBytes> bytes;
    for (int s = 0; s < 8; ++s) {
      const std::int64_t elements = 12 * 64 * 64 + 11 * 64 + (s == 0 ? 128 * 64 : 0) + (s == 7 ? 64 + 128 * 64 : 0);
      bytes.push_back({4 * elements, 4 * elements, 4 * elements / 2});
    }
    std::int64_t most = 0;
    for (const StagePeak& peak : stage_memory(choice.schedule, bytes).most) most = std::max(most, peak.bytes);
    EXPECT_EQ(choice.most_bytes, most);
    std::int64_t underway = 0;
    for (const PlannedMemory& of_rank : HeldPlans(planner.question()).by_rank(config))
      underway = std::max(underway, of_rank.underway);
    EXPECT_EQ(underway, most);
  }
}

/// With less memory for stages they are gathered more often, which moves more bytes and takes longer.
TEST(StageActionsPlan, GathersMoreOftenWithASmallerBudget) {
  PlanQuestion q;
  q.model = named_model("llama3-8b");
  q.cluster = cluster_spec(virtual_cluster_from("dgx-h100x4"));
  q.global_batch = 64;
  q.stage_actions = true;
  Planner planner(q);
  const std::string layout = "tp=8,pp=2,zero=3,schedule=interleaved,virtual-stages=4";
  const JobConfig whole = layout_from_text(planner.question(), layout);
  const JobConfig small = layout_from_text(planner.question(), layout + ",budget=2GiB");
  ASSERT_EQ(to_string(planner.violations(small)), "");
  EXPECT_LT(planner.memory(small).underway, planner.memory(whole).underway);
  EXPECT_LE(planner.memory(small).underway, (std::int64_t{2} << 30) + (1 << 20));
  EXPECT_GT(planner.sharding(small).moved_bytes, planner.sharding(whole).moved_bytes);
  const PlannedTime slow = planner.time(small), fast = planner.time(whole);
  EXPECT_GT(slow.total(), fast.total());
  EXPECT_GE(fast.total(), planner.least_time(whole).total());
  // One unit of all stages waits for all of its exchanges.
  q.stage_actions = false;
  Planner as_one(q);
  EXPECT_LT(fast.data.parameters + fast.data.gradients,
            as_one.time(whole).data.parameters + as_one.time(whole).data.gradients);
  EXPECT_THAT(planner.sharding(small).why, HasSubstr("stages of a rank at a time"));
}

/// With little memory, the search finds layouts whose stages share the memory that is left.
TEST(StageActionsPlan, IsSearchedWithTheMemoryThatIsLeft) {
  PlanQuestion q = of_eight_layers();
  q.cluster.memory_bytes = 4 << 20;
  Planner planner(q);
  const PlanResult found = search(planner, {.top = 100'000});
  int with_budget = 0;
  for (const PlannedLayout& p : found.best) {
    with_budget += p.config.prefetch_bytes > 0 ? 1 : 0;
    EXPECT_LE(p.memory.total(), q.cluster.memory_bytes);
    EXPECT_EQ(p.memory.total(), predict_memory(q.ranks(), p.config, planner.engine()).total());
  }
  EXPECT_GT(with_budget, 0);
  EXPECT_EQ(found.fitting, std::ssize(found.best));
}

TEST(StageActionsPlan, SaysWhichBudgetIsEnough) {
  Planner planner(of_eight_layers());
  const std::string broken = to_string(planner.violations(laid_out(planner, "pp=2,micro-batch=2,zero=3,budget=1000")));
  EXPECT_THAT(broken, HasSubstr("stage_actions: choose_sharding: a budget of 1000 bytes for '1f1b', expected "));
  EXPECT_THAT(to_string(planner.violations(laid_out(planner, "pp=2,micro-batch=1,zero=3,near=2"))),
              HasSubstr("near_ranks: 2 near ranks, and the schedule of the pipeline decides"));
}

}  // namespace
}  // namespace sinew::parallel
