#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../executor.hpp"
#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

constexpr std::string_view kNames[] = {"gpipe", "1f1b", "zb-h1", "interleaved", "looped-bfs", "zb-v", "dualpipev"};

std::int64_t count(const PipelineSchedule& schedule, ActionKind kind) {
  std::int64_t sum = 0;
  for (const std::vector<Action>& actions : schedule.actions) sum += std::ranges::count(actions, kind, &Action::kind);
  return sum;
}

TEST(WithMessages, PostsEachReceiveOneComputeAhead) {
  EXPECT_EQ(to_csv(with_messages(one_forward_one_backward(2, 3))),
            "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0F2,0SEND_F2,0RECV_B2,0B1,0B2\n"
            "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1RECV_F2,1B1,1SEND_B1,1F2,1B2,1SEND_B2\n");
}

TEST(WithMessages, CostsNoTime_WhereMessagesAreFasterThanCompute) {
  for (const std::string_view name : kNames) {
    for (const std::int32_t p : {2, 3, 4, 7}) {
      for (const std::int32_t m : {1, 3, 8, 17}) {
        const PipelineSchedule schedule = make_schedule(name, p, m);
        for (const std::int64_t latency : {1, 5, 9}) {
          const PipelineCosts costs{.stages = {{10, 20, 10, 10, 10}}, .latency = latency};
          EXPECT_EQ(simulate(with_messages(schedule), costs).makespan, simulate(schedule, costs).makespan)
              << name << " p " << p << " m " << m << " latency " << latency;
        }
      }
    }
  }
}

TEST(WithMessages, HidesLongMessages_PostedEarlier) {
  const PipelineCosts costs{.latency = 5};
  const std::int64_t least = simulate(gpipe(2, 16), costs).makespan;
  EXPECT_GT(simulate(with_messages(gpipe(2, 16)), costs).makespan, least);
  const PipelineSchedule early = with_messages(gpipe(2, 16), 5);
  EXPECT_EQ(simulate(early, costs).makespan, least);
  EXPECT_TRUE(prove(early, {.most_under_way = 0}));
}

TEST(WithMessages, SendsNothingWithinARank) {
  PipelineSchedule schedule = gpipe(1, 2);
  EXPECT_EQ(with_messages(schedule), schedule);
  // The first two stages on rank 0, the next two on rank 1.
  schedule = from_csv("0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0\n", "two by two");
  EXPECT_EQ(to_csv(with_messages(schedule)), "0F0,1RECV_B0,1F0,1SEND_F0,1B0,0B0\n2RECV_F0,2F0,3F0,3B0,2B0,2SEND_B0\n");
}

/// A V: rank r has stages r and 2p-1-r, so that the middle two are on one rank. Backward as soon as it can be.
PipelineSchedule v_shaped(std::int32_t p, std::int32_t m) {
  PipelineSchedule schedule{.name = "v", .micro_batches = m};
  for (std::int32_t s = 0; s < 2 * p; ++s) schedule.rank_of.push_back(s < p ? s : 2 * p - 1 - s);
  for (std::int32_t r = 0; r < p; ++r) {
    schedule.actions.emplace_back();
    for (std::int32_t i = 0; i < m; ++i) {
      for (const ActionKind kind : {ActionKind::Forward, ActionKind::Backward}) {
        const bool up = kind == ActionKind::Forward;
        schedule.actions.back().push_back({kind, up ? r : 2 * p - 1 - r, i});
        schedule.actions.back().push_back({kind, up ? 2 * p - 1 - r : r, i});
      }
    }
  }
  return schedule;
}

TEST(WithMessages, TurnsOnARankThatHasTwoNeighbours) {
  std::mt19937 random(3);
  for (const std::int32_t p : {1, 2, 3, 5}) {
    const PipelineSchedule schedule = with_messages(v_shaped(p, 4));
    const PipelineVerdict verdict = prove(schedule, {.most_under_way = 0});
    EXPECT_TRUE(verdict) << verdict.reason;
    EXPECT_EQ(test::execute(schedule, random, 0), "");
    EXPECT_EQ(count(schedule, ActionKind::SendActivation), 4 * 2 * (p - 1));
  }
}

TEST(WithRecompute, KeepsInputsInsteadOfActivations) {
  const PipelineSchedule schedule = with_recompute(gpipe(3, 8));
  EXPECT_EQ(to_csv(with_recompute(gpipe(1, 2))), "0F0,0F1,0R0,0B0,0R1,0B1\n");
  const PipelineVerdict verdict = prove(schedule, {.messages = false});
  ASSERT_TRUE(verdict) << verdict.reason;
  EXPECT_EQ(verdict.live.by_rank, (std::vector<std::int32_t>{1, 1, 1}));
  EXPECT_EQ(verdict.live.inputs_by_rank, (std::vector<std::int32_t>{8, 8, 8}));
}

TEST(WithRecompute, MakesNothingTwiceThatIsThere) {
  const PipelineSchedule schedule = with_recompute(one_forward_one_backward(3, 4));
  EXPECT_EQ(std::ranges::count(schedule.actions[2], ActionKind::Recompute, &Action::kind), 0);
  EXPECT_EQ(std::ranges::count(schedule.actions[1], ActionKind::Recompute, &Action::kind), 4);
}

TEST(WithRecompute, IsTheSameBeforeAndAfterMessages) {
  std::mt19937 random(4);
  for (const std::string_view name : kNames) {
    for (const PipelineSchedule& schedule : {with_recompute(with_messages(make_schedule(name, 3, 6))),
                                             with_messages(with_recompute(make_schedule(name, 3, 6)))}) {
      EXPECT_TRUE(prove(schedule)) << name;
      EXPECT_EQ(test::execute(schedule, random), "") << name;
    }
  }
}

TEST(WithReduce, ReducesEachStageOnce_AfterItsLastGradient) {
  EXPECT_EQ(to_csv(with_reduce(gpipe(2, 2))), "0F0,0F1,0B0,0B1,0REDUCE\n1F0,1F1,1B0,1B1,1REDUCE\n");
  EXPECT_EQ(to_csv(with_reduce(zero_bubble_h1(1, 2))), "0F0,0I0,0W0,0F1,0I1,0W1,0REDUCE\n");
}

TEST(WithReduce, ReducesAfterEachMicroBatch_WhereAsked) {
  EXPECT_EQ(to_csv(with_reduce(gpipe(1, 2), ReduceEvery::MicroBatch)), "0F0,0F1,0B0,0REDUCE,0B1,0REDUCE\n");
  EXPECT_EQ(to_csv(with_sharding(zero_bubble_h1(1, 2), 1, ReduceEvery::MicroBatch)),
            "0UNSHARD,0F0,0I0,0W0,0REDUCE,0F1,0I1,0W1,0REDUCE,0RESHARD\n");
}

TEST(ForwardOnly, KeepsForwardPassesAndTheirMessages) {
  EXPECT_EQ(to_csv(forward_only(one_forward_one_backward(2, 3))), "0F0,0F1,0F2\n1F0,1F1,1F2\n");
  EXPECT_EQ(to_csv(forward_only(with_messages(with_recompute(gpipe(2, 2))))),
            "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1RECV_F1,1F0,1F1\n");
  EXPECT_EQ(to_csv(forward_only(with_sharding(looped_breadth_first(1, 1, 3), 2))),
            "0UNSHARD,1UNSHARD,0F0,0RESHARD,2UNSHARD,1F0,2F0,2RESHARD,1RESHARD\n");
}

/// The order of the two passes makes no difference. Nothing is kept behind a forward pass.
TEST(ForwardOnly, OfEverySchedule_IsProved) {
  for (const NamedGenerator& g : generators()) {
    for (const std::int32_t ranks : {1, 2, 3, 5}) {
      for (const std::int32_t micro_batches : {1, 4, 7}) {
        const PipelineSchedule schedule = g.make(ranks, micro_batches, g.virtual_stages(2));
        for (const PipelineSchedule& half :
             {forward_only(with_messages(schedule)), with_messages(forward_only(schedule)),
              forward_only(with_sharding(with_messages(schedule), 1))}) {
          const PipelineVerdict verdict = prove(half, {.most_under_way = 1});
          ASSERT_TRUE(verdict) << g.name << verdict.reason;
          for (const std::int32_t live : verdict.live.by_stage) ASSERT_EQ(live, 1);
          ASSERT_EQ(forward_only(half), half);
        }
      }
    }
  }
}

TEST(ForwardOnly, RefusesWhatHasToDoWithGradients) {
  PipelineSchedule schedule = with_messages(forward_only(gpipe(2, 2)));
  schedule.actions[1].push_back({ActionKind::Backward, 1, 0});
  EXPECT_EQ(prove(schedule).reason, "rank 1: 1B0: expected a forward-only schedule without");
  schedule.actions[1].back() = {ActionKind::Reduce, 1};
  EXPECT_EQ(prove(schedule).reason, "rank 1: 1REDUCE: expected a forward-only schedule without");
  schedule.actions[1].back() = {ActionKind::SendGradient, 1, 0};
  EXPECT_EQ(prove(schedule).reason, "rank 1: 1SEND_B0: expected a forward-only schedule without");
  schedule.actions[1].pop_back();
  schedule.actions[0].erase(schedule.actions[0].begin());
  EXPECT_THAT(prove(schedule).reason, HasSubstr("there is no 0F0"));
}

TEST(WithSharding, UnshardsWhatIsNeededNext) {
  EXPECT_EQ(to_csv(with_sharding(looped_breadth_first(1, 1, 3), 2)),
            "0UNSHARD,1UNSHARD,0F0,0RESHARD,2UNSHARD,1F0,2F0,2B0,2REDUCE,2RESHARD,0UNSHARD,1B0,1REDUCE,1RESHARD,0B0,"
            "0REDUCE,0RESHARD\n");
  EXPECT_EQ(to_csv(with_sharding(gpipe(1, 2), 1)), "0UNSHARD,0F0,0F1,0B0,0B1,0REDUCE,0RESHARD\n");
}

TEST(WithSharding, OfPasses_UnshardsEachComputeByItself) {
  EXPECT_EQ(
      to_csv(with_sharding_of_passes(gpipe(1, 2), ReduceEvery::MicroBatch)),
      "0UNSHARD,0F0,0RESHARD,0UNSHARD,0F1,0RESHARD,0UNSHARD,0B0,0REDUCE,0RESHARD,0UNSHARD,0B1,0REDUCE,0RESHARD\n");
  for (const std::string_view name : kNames) {
    const PipelineVerdict verdict = prove(with_sharding_of_passes(with_messages(make_schedule(name, 3, 7))));
    EXPECT_TRUE(verdict) << verdict.reason;
  }
}

TEST(WithSharding, HasAtMostSoManyStagesWholeAtOnce) {
  for (const std::int32_t active : {1, 2, 3}) {
    for (const std::string_view name : {"interleaved", "looped-bfs"}) {
      const PipelineSchedule schedule = with_sharding(with_messages(make_schedule(name, 3, 7, 4)), active);
      const PipelineVerdict verdict = prove(schedule);
      ASSERT_TRUE(verdict) << verdict.reason;
      std::size_t most = 0;
      for (const std::vector<Action>& actions : schedule.actions) {
        std::set<std::int32_t> whole;
        for (const Action& a : actions) {
          if (a.kind == ActionKind::Unshard) whole.insert(a.stage);
          if (a.kind == ActionKind::Reshard) whole.erase(a.stage);
          most = std::max(most, whole.size());
        }
      }
      EXPECT_EQ(most, std::size_t(active)) << name;
    }
  }
  // Breadth first every stage comes twice, and the last one is still there when it comes again.
  EXPECT_EQ(count(with_sharding(looped_breadth_first(2, 8, 3), 1), ActionKind::Unshard), 2 * (2 * 3 - 1));
}

TEST(Passes, RefuseWhatCannotRun_AndWhatHasTheirActions) {
  const PipelineSchedule good = gpipe(2, 2);
  PipelineSchedule bad = good;
  std::swap(bad.actions[1].front(), bad.actions[1].back());
  EXPECT_THAT(refusal_of([&] { (void)with_messages(bad); }),
              HasSubstr("with_messages: 'gpipe' cannot run: deadlock: "));
  EXPECT_THAT(refusal_of([&] { (void)with_recompute(bad); }), HasSubstr("with_recompute: 'gpipe' cannot run"));
  EXPECT_THAT(refusal_of([&] { (void)with_messages(with_messages(good)); }), HasSubstr("has 0SEND_F0 already"));
  EXPECT_THAT(refusal_of([&] { (void)with_recompute(with_recompute(good)); }), HasSubstr("has 0R0 already"));
  EXPECT_THAT(refusal_of([&] { (void)with_reduce(with_reduce(good)); }), HasSubstr("has 0REDUCE already"));
  EXPECT_THAT(refusal_of([&] { (void)with_sharding(with_sharding(good)); }), HasSubstr("has 0UNSHARD already"));
  EXPECT_THAT(refusal_of([&] { (void)with_sharding(good, 0); }), HasSubstr("0 active stages: expected 1 or more"));
  EXPECT_THAT(refusal_of([&] { (void)with_messages(good, 0); }), HasSubstr("receives 0 ahead: expected 1 or more"));
}

}  // namespace
}  // namespace sinew::parallel
