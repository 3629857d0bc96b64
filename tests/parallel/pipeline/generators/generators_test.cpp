#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

std::vector<std::string> texts(const std::vector<Action>& actions) {
  std::vector<std::string> all;
  for (const Action& a : actions) all.push_back(to_string(a));
  return all;
}

using Texts = std::vector<std::string>;

TEST(Generators, WriteSmallSchedulesAsInTheirPapers) {
  EXPECT_EQ(texts(gpipe(2, 2).actions[1]), (Texts{"1F0", "1F1", "1B0", "1B1"}));
  const PipelineSchedule in_turn = one_forward_one_backward(3, 4);
  EXPECT_EQ(texts(in_turn.actions[0]), (Texts{"0F0", "0F1", "0F2", "0B0", "0F3", "0B1", "0B2", "0B3"}));
  EXPECT_EQ(texts(in_turn.actions[2]), (Texts{"2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "2F3", "2B3"}));
  EXPECT_EQ(texts(looped_breadth_first(2, 2, 2).actions[1]),
            (Texts{"1F0", "1F1", "3F0", "3F1", "3B0", "3B1", "1B0", "1B1"}));
  const PipelineSchedule split = zero_bubble_h1(2, 3);
  EXPECT_EQ(texts(split.actions[0]), (Texts{"0F0", "0F1", "0I0", "0W0", "0F2", "0I1", "0W1", "0I2", "0W2"}));
  EXPECT_EQ(texts(split.actions[1]), (Texts{"1F0", "1I0", "1F1", "1I1", "1W0", "1F2", "1I2", "1W1", "1W2"}));
}

TEST(Interleaved, TakesMicroBatchesInTheOrderOfMegatronsTable) {
  const PipelineSchedule schedule = interleaved(2, 5, 2, 3);  // PP 2, M 5, VP 2, N 3
  for (const std::vector<Action>& actions : schedule.actions) {
    std::vector<std::int32_t> micro_batches, chunks;
    for (const Action& a : actions) {
      if (a.kind != ActionKind::Forward) continue;
      micro_batches.push_back(a.micro_batch);
      chunks.push_back(a.stage / 2);
    }
    EXPECT_EQ(micro_batches, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4}));
    EXPECT_EQ(chunks, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}));
  }
}

TEST(Interleaved, IsAheadAsFarAsMegatrons) {
  const PipelineSchedule schedule = interleaved(4, 12, 3, 6);
  for (std::int32_t r = 0; r < 4; ++r) {
    const std::vector<Action>& actions = schedule.actions[std::size_t(r)];
    const auto first = std::ranges::find(actions, ActionKind::Backward, &Action::kind);
    EXPECT_EQ(first - actions.begin(), 2 * (3 - r) + 2 * 6 + 1) << r;
  }
}

TEST(Interleaved, WithOneStagePerRankIsOneForwardOneBackward) {
  for (const std::int32_t m : {1, 3, 7})
    EXPECT_EQ(interleaved(4, m, 1).actions, one_forward_one_backward(4, m).actions);
}

TEST(Interleaved, RunsWithEveryGroup) {
  for (std::int32_t p = 1; p <= 6; ++p) {
    for (std::int32_t m = 1; m <= 26; ++m) {
      for (std::int32_t g = p; g <= m + 1; ++g) {
        const PipelineVerdict verdict = prove(interleaved(p, m, 3, g), {.messages = false});
        ASSERT_TRUE(verdict) << p << ' ' << m << ' ' << g << ": " << verdict.reason;
      }
    }
  }
}

/// Interleaved with groups of any size, one after the other, and the lead of groups of `group`.
PipelineSchedule in_groups(std::int32_t p, std::int32_t v, const std::vector<std::int32_t>& groups,
                           std::int32_t group) {
  PipelineSchedule schedule = interleaved(p, std::accumulate(groups.begin(), groups.end(), 0), v);
  for (std::int32_t r = 0; r < p; ++r) {
    std::vector<Action> forward, backward;
    std::int32_t first = 0;
    for (const std::int32_t members : groups) {
      for (std::int32_t i = 0; i < members * v; ++i) {
        const std::int32_t chunk = i / members, m = first + i % members;
        forward.push_back({ActionKind::Forward, chunk * p + r, m});
        backward.push_back({ActionKind::Backward, (v - 1 - chunk) * p + r, m});
      }
      first += members;
    }
    std::vector<Action>& actions = schedule.actions[std::size_t(r)];
    actions.clear();
    const std::size_t lead = std::min(std::size_t(2 * (p - 1 - r) + (v - 1) * group + 1), forward.size());
    for (std::size_t i = 0; i < lead; ++i) actions.push_back(forward[i]);
    for (std::size_t i = 0; i < backward.size(); ++i) {
      actions.push_back(backward[i]);
      if (lead + i < forward.size()) actions.push_back(forward[lead + i]);
    }
  }
  return schedule;
}

TEST(Interleaved, WouldDeadlockWithGroupsSmallerThanTheRanks) {
  EXPECT_EQ(in_groups(5, 2, {5, 5, 5}, 5).actions, interleaved(5, 15, 2).actions);
  for (const auto& groups : {std::vector<std::int32_t>{5, 5, 2}, {3, 3, 3, 3}}) {
    const PipelineVerdict verdict = prove(in_groups(5, 2, groups, groups[0]), {.messages = false});
    EXPECT_FALSE(verdict);
    EXPECT_THAT(verdict.reason, HasSubstr("deadlock: "));
  }
  EXPECT_EQ(in_groups(5, 2, {6, 6}, 6).actions, interleaved(5, 12, 2).actions) << "so the two join the others";
}

TEST(Generators, RefuseWhatCannotBe) {
  EXPECT_THAT(refusal_of([] { (void)gpipe(0, 1); }), HasSubstr("gpipe: 0 ranks: expected 1 or more"));
  EXPECT_THAT(refusal_of([] { (void)one_forward_one_backward(1, 0); }), HasSubstr("1f1b: 0 micro-batches"));
  EXPECT_THAT(refusal_of([] { (void)looped_breadth_first(1, 1, -1); }), HasSubstr("looped-bfs: -1 virtual stages"));
  EXPECT_THAT(refusal_of([] { (void)zero_bubble_h1(-3, 1); }), HasSubstr("-3 ranks"));
  EXPECT_THAT(refusal_of([] { (void)zero_bubble_v(2, 0); }), HasSubstr("zb-v: 0 micro-batches"));
  EXPECT_THAT(refusal_of([] { (void)dual_pipe_v(2049, 1); }),
              HasSubstr("dualpipev: 2049 ranks: expected at most 2048"));
  EXPECT_THAT(refusal_of([] { (void)interleaved(4, 8, 2, 3); }),
              HasSubstr("groups of 3 micro-batches: expected at least as many as ranks, 4, or 0"));
  EXPECT_THAT(refusal_of([] { (void)interleaved(4, 8, 2, -1); }), HasSubstr("groups of -1 micro-batches"));
  EXPECT_THAT(refusal_of([] { (void)interleaved(1 << 30, 1 << 30, 1 << 30); }),
              HasSubstr("expected a product of at most"));
}

TEST(MakeSchedule, KnowsAllByName_AndSaysWhichThereAre) {
  for (const NamedGenerator& g : generators()) {
    EXPECT_EQ(make_schedule(g.name, 2, 3).name, g.name);
    EXPECT_EQ(find_generator(g.name), &g);
    EXPECT_EQ(make_schedule(g.name, 2, 3).stages(), 2 * g.least_virtual_stages);
    const PipelineSchedule schedule = make_schedule(g.name, 3, 4, g.virtual_stages(2));
    for (std::int32_t s = 0; s < schedule.stages(); ++s)
      EXPECT_EQ(schedule.rank_of[std::size_t(s)], rank_of_stage(g.placement, 3, s)) << g.name;
    if (g.most_virtual_stages > 2) {
      EXPECT_EQ(make_schedule(g.name, 2, 3, 2).stages(), 4);
      EXPECT_THAT(refusal_of([&] { (void)make_schedule(g.name, 2, 3, 0); }), HasSubstr("0 virtual stages"));
    } else {
      const std::int32_t other = 3 - g.least_virtual_stages;
      EXPECT_THAT(refusal_of([&] { (void)make_schedule(g.name, 2, 3, other); }),
                  HasSubstr(std::to_string(other) + " virtual stages: expected " +
                            std::to_string(g.least_virtual_stages) + ";"));
    }
  }
  EXPECT_EQ(find_generator("2f2b"), nullptr);
  EXPECT_THAT(
      refusal_of([] { (void)make_schedule("2f2b", 2, 3); }),
      HasSubstr("schedule '2f2b': expected one of gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-v, dualpipev"));
}

}  // namespace
}  // namespace sinew::parallel
