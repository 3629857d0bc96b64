#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

/// With F = I = W = 1, B = 2 every rank idles that long.
void expect_idle(const PipelineSchedule& schedule, std::int64_t idle, std::int64_t busy) {
  const PipelineTimeLine line = simulate(schedule);
  EXPECT_EQ(line.makespan, busy + idle) << schedule.name;
  for (std::int32_t r = 0; r < schedule.ranks(); ++r) {
    EXPECT_EQ(line.idle(r), idle) << schedule.name << " rank " << r;
    EXPECT_EQ(line.busy[std::size_t(r)], busy);
    EXPECT_DOUBLE_EQ(line.idle_share(r), double(idle) / double(idle + busy));
  }
}

TEST(Simulate, FindsThePublishedIdleTimes) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    for (const std::int32_t m : {p, p + 1, 2 * p, 4 * p, 64}) {
      expect_idle(gpipe(p, m), 3 * (p - 1), 3 * m);
      expect_idle(one_forward_one_backward(p, m), 3 * (p - 1), 3 * m);
      expect_idle(zero_bubble_h1(p, m), p - 1, 3 * m);
      for (const std::int32_t v : {2, 3, 4}) {
        expect_idle(looped_breadth_first(p, m, v), 3 * (p - 1), 3 * m * v);
        expect_idle(interleaved(p, m, v), 3 * (p - 1), 3 * m * v);
      }
    }
    for (const std::int32_t m : {1, p - 1}) {
      expect_idle(gpipe(p, m), 3 * (p - 1), 3 * m);
      expect_idle(one_forward_one_backward(p, m), 3 * (p - 1), 3 * m);
    }
  }
}

/// The first stage waits for its gather, and the last sum has no compute beside it. All other exchanges are hidden.
TEST(Simulate, RunsExchangesOfStagesBesideCompute) {
  const PipelineSchedule schedule = with_sharding(one_forward_one_backward(4, 8), 1);
  PipelineCosts costs{.stages = {{.forward = 100, .backward = 200}}};
  const std::int64_t alone = simulate(schedule, costs).makespan;
  EXPECT_EQ(alone, 300 * (8 + 3));
  costs.stages[0].gather = 50;
  EXPECT_EQ(simulate(schedule, costs).makespan, alone + 50);
  costs.stages[0].sum = 70;
  EXPECT_EQ(simulate(schedule, costs).makespan, alone + 50 + 70);
  // Gathers for each pass of two stages of a rank run one after the other, so they take more time than the computes.
  const PipelineSchedule often = with_sharding(looped_breadth_first(1, 4, 2), 1);
  costs.stages[0] = {.forward = 1, .backward = 1, .gather = 1000};
  std::int64_t gathers = 0;
  for (const Action& a : often.actions[0]) gathers += a.kind == ActionKind::Unshard ? 1 : 0;
  EXPECT_GE(gathers, 2);
  EXPECT_GE(simulate(often, costs).makespan, 1000 * gathers);
  costs.stages[0].sum = -1;
  EXPECT_THAT(refusal_of([&] { static_cast<void>(simulate(often, costs)); }), HasSubstr("a cost of -1"));
}

TEST(Simulate, FindsThePublishedBubbles) {
  // p 8, m 32: of the ideal time, and of all.
  const auto of = [](const PipelineSchedule& schedule) {
    const PipelineTimeLine line = simulate(schedule);
    return std::pair(double(line.idle(0)) / double(line.busy[0]), line.idle_share(0));
  };
  EXPECT_EQ(of(one_forward_one_backward(8, 32)), std::pair(7. / 32, 7. / 39));
  EXPECT_EQ(of(interleaved(8, 32, 2)), std::pair(7. / 64, 7. / 71));
  EXPECT_EQ(of(interleaved(8, 32, 4)), std::pair(7. / 128, 7. / 135));
  EXPECT_EQ(of(one_forward_one_backward(64, 512)), std::pair(63. / 512, 63. / 575));
}

TEST(Simulate, FindsThePublishedLiveActivations) {
  for (std::int32_t p = 2; p <= 16; ++p) {
    for (const std::int32_t m : {1, p / 2 + 1, p, 3 * p, 64}) {
      const auto in_turn = prove(one_forward_one_backward(p, m), {.messages = false}).live;
      const auto all_forward = prove(gpipe(p, m), {.messages = false}).live;
      const auto split = prove(zero_bubble_h1(p, m), {.messages = false}).live;
      for (std::int32_t r = 0; r < p; ++r) {
        const auto i = std::size_t(r);
        EXPECT_EQ(in_turn.by_rank[i], std::min(m, p - r));
        EXPECT_EQ(in_turn.by_stage[i], std::min(m, p - r));
        EXPECT_EQ(all_forward.by_rank[i], m);
        EXPECT_EQ(split.by_rank[i], std::min(m, p)) << "p " << p << " m " << m << " r " << r;
      }
      if (m % p != 0) continue;
      for (const std::int32_t v : {2, 4}) {
        // The first rank of an interleaved one: 1 + (p-1)/(p v) times what a rank without stages of its own would hold.
        const std::int32_t first = prove(interleaved(p, m, v), {.messages = false}).live.by_rank[0];
        EXPECT_EQ(first, std::min(m * v, p * v + p - 1));
        EXPECT_EQ(prove(looped_breadth_first(p, m, v), {.messages = false}).live.by_rank[0], m * v);
      }
    }
  }
}

TEST(Simulate, TimesEachAction) {
  const PipelineTimeLine line = simulate(one_forward_one_backward(2, 2));
  using Spans = std::vector<PipelineTimeLine::Span>;
  EXPECT_EQ(line.spans[0], (Spans{{0, 1}, {1, 2}, {4, 6}, {7, 9}}));  // 0F0 0F1 0B0 0B1
  EXPECT_EQ(line.spans[1], (Spans{{1, 2}, {2, 4}, {4, 5}, {5, 7}}));  // 1F0 1B0 1F1 1B1
}

TEST(Simulate, AddsTheLatencyOfMessages) {
  for (const PipelineSchedule& schedule : {gpipe(4, 1), with_messages(gpipe(4, 1))}) {
    const PipelineTimeLine line = simulate(schedule, {.latency = 5});
    EXPECT_EQ(line.makespan, 4 * 3 + 6 * 5) << "down and up again";
  }
  EXPECT_EQ(simulate(gpipe(1, 3), {.latency = 5}).makespan, 9) << "nothing is sent";
}

TEST(Simulate, TakesCostsByStage) {
  PipelineCosts costs{.stages = {{.forward = 1}, {.forward = 10}}};
  EXPECT_EQ(simulate(gpipe(2, 3), costs).spans[1][2].end, 1 + 3 * 10);
  costs.stages.pop_back();
  costs.stages[0].weight_gradient = 4;
  EXPECT_EQ(simulate(zero_bubble_h1(1, 2), costs).makespan, 2 * (1 + 1 + 4));
}

TEST(Simulate, CountsRecomputation) {
  const PipelineSchedule schedule = with_recompute(gpipe(1, 4));
  EXPECT_EQ(simulate(schedule, {.stages = {{.recompute = 7}}}).makespan, 3 * 4 + 7 * 4);
}

TEST(Simulate, RefusesWhatCannotRun_AndBadCosts) {
  PipelineSchedule schedule = gpipe(2, 2);
  std::swap(schedule.actions[0][0], schedule.actions[0][2]);
  EXPECT_THAT(refusal_of([&] { (void)simulate(schedule); }),
              HasSubstr("simulate: deadlock: 0B0 (rank 0) waits for 0F0"));
  EXPECT_THAT(refusal_of([] { (void)simulate(gpipe(2, 2), {.latency = -1}); }), HasSubstr("a cost of -1"));
  EXPECT_THAT(refusal_of([] {
                (void)simulate(gpipe(3, 2), {.stages = {{}, {}}});
              }),
              HasSubstr("costs of 2 stages: expected 1 or 3"));
}

}  // namespace
}  // namespace sinew::parallel
