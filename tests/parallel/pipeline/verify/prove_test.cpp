#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {
namespace {

using ::testing::HasSubstr;

/// Actions by rank as texts, "0F0 0B0".
PipelineSchedule of(const std::vector<std::string>& ranks, std::int32_t micro_batches,
                    std::vector<std::int32_t> rank_of) {
  PipelineSchedule schedule{.name = "test", .micro_batches = micro_batches, .rank_of = std::move(rank_of)};
  for (const std::string& text : ranks) {
    schedule.actions.emplace_back();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      schedule.actions.back().push_back(parse_action(text.substr(at, end - at)).value());
      at = end + 1;
    }
  }
  return schedule;
}

std::vector<std::string> texts(const std::vector<PlacedAction>& cycle) {
  std::vector<std::string> all;
  for (const PlacedAction& a : cycle) all.push_back(std::to_string(a.rank) + ":" + to_string(a.action));
  return all;
}

TEST(Prove, ShowsTheShortestCircleOfAPlantedDeadlock) {
  // Rank 0 waits for the gradient of micro-batch 0 before it sends the activation of 1, which rank 1 takes first.
  const PipelineSchedule schedule =
      of({"0F0 0SEND_F0 0RECV_B0 0F1 0RECV_B1 0B0 0SEND_F1 0B1", "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1"},
         2, {0, 1});
  const PipelineVerdict verdict = prove(schedule);
  EXPECT_FALSE(verdict);
  EXPECT_EQ(texts(verdict.cycle), (std::vector<std::string>{"0:0B0", "1:1SEND_B0", "1:1F1", "0:0SEND_F1"}));
  EXPECT_EQ(verdict.reason,
            "deadlock: 0B0 (rank 0) waits for 1SEND_B0 (rank 1), which comes after 1F1 (rank 1), which waits for "
            "0SEND_F1 (rank 0), which comes after 0B0 (rank 0)");
}

TEST(Prove, ShowsACircleOfTwo_OnOneRank) {
  const PipelineVerdict verdict = prove(of({"0F0 1F0 0B0 1B0"}, 1, {0, 0}));
  EXPECT_EQ(verdict.reason, "deadlock: 0B0 (rank 0) waits for 1B0 (rank 0), which comes after 0B0 (rank 0)");
  EXPECT_EQ(verdict.cycle.size(), 2);
  EXPECT_THAT(prove(of({"0F0 0W0 0I0"}, 1, {0})).reason, HasSubstr("0W0 (rank 0) waits for 0I0"));
  EXPECT_THAT(prove(of({"0F0 0B0 0R0"}, 1, {0})).reason, HasSubstr("0B0 (rank 0) waits for 0R0"));
}

/// What an action waits for, told again for whole backward passes, with messages or without.
bool needs(const PipelineSchedule& schedule, bool messages, const Action& a, const Action& b) {
  using enum ActionKind;
  if (a.micro_batch != b.micro_batch) return false;
  const auto is = [&](ActionKind what, ActionKind of_what, std::int32_t from) {
    return a.kind == what && b.kind == of_what && b.stage == a.stage + from;
  };
  if (is(Forward, Forward, -1) || is(Backward, Backward, 1))
    return !messages || schedule.rank_of[std::size_t(a.stage)] == schedule.rank_of[std::size_t(b.stage)];
  return is(Forward, ReceiveActivation, 0) || is(Forward, SendActivation, -1) || is(Backward, Forward, 0) ||
         is(Backward, ReceiveGradient, 0) || is(Backward, SendGradient, 1) || is(SendActivation, Forward, 0) ||
         is(SendGradient, Backward, 0);
}

/// Length of the shortest circle, from all distances; 0: there is none.
std::size_t least_circle(const PipelineSchedule& schedule, bool messages) {
  std::vector<std::pair<std::size_t, Action>> all;
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    for (const Action& a : schedule.actions[r]) all.emplace_back(r, a);
  }
  constexpr std::size_t kFar = 1 << 20;
  std::vector<std::vector<std::size_t>> far(all.size(), std::vector<std::size_t>(all.size(), kFar));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      if ((j < i && all[i].first == all[j].first) || needs(schedule, messages, all[i].second, all[j].second))
        far[i][j] = 1;
    }
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) far[i][j] = std::min(far[i][j], far[i][k] + far[k][j]);
    }
  }
  std::size_t least = kFar;
  for (std::size_t i = 0; i < all.size(); ++i) least = std::min(least, far[i][i]);
  return least == kFar ? 0 : least;
}

TEST(Prove, FindsNoLongerCircleThanAllDistancesDo) {
  for (const PipelineSchedule& good :
       {with_messages(one_forward_one_backward(3, 3)), with_messages(interleaved(2, 3, 2))}) {
    for (std::size_t r = 0; r < good.actions.size(); ++r) {
      for (std::size_t i = 0; i < good.actions[r].size(); ++i) {
        for (std::size_t j = i + 1; j < good.actions[r].size(); j += 2) {
          PipelineSchedule schedule = good;
          std::swap(schedule.actions[r][i], schedule.actions[r][j]);
          const PipelineVerdict verdict = prove(schedule);
          if (!verdict && verdict.cycle.empty()) continue;  // messages in another order
          ASSERT_EQ(verdict.cycle.size(), least_circle(schedule, true)) << to_csv(schedule) << verdict.reason;
        }
      }
    }
  }
}

TEST(Prove, FindsNoLongerCircleThanAllDistancesDo_AcrossRanks) {
  std::mt19937 random(11);
  std::map<std::size_t, int> lengths;
  for (int i = 0; i < 1500; ++i) {
    // Any order in which no pass goes backward before it went forward.
    PipelineSchedule schedule = interleaved(std::int32_t(random() % 3 + 2), 2, std::int32_t(random() % 2 + 1));
    for (std::vector<Action>& actions : schedule.actions) {
      std::ranges::shuffle(actions, random);
      for (Action& a : actions) {
        Action& other = *std::ranges::find_if(actions, [&](const Action& b) {
          return b.stage == a.stage && b.micro_batch == a.micro_batch && b.kind != a.kind;
        });
        if (&other > &a) std::tie(a.kind, other.kind) = std::pair(ActionKind::Forward, ActionKind::Backward);
      }
    }
    const PipelineVerdict verdict = prove(schedule, {.messages = false});
    ++lengths[verdict.cycle.size()];
    ASSERT_EQ(verdict.cycle.size(), least_circle(schedule, false)) << to_csv(schedule) << verdict.reason;
  }
  EXPECT_GT(lengths[0], 10);
  EXPECT_GT(lengths[4], 10);
  EXPECT_GT(lengths.rbegin()->first, 4U);
}

TEST(Prove, LimitsTheSendsUnderWay) {
  // Rank 0 sends two activations before rank 1, which posts receives late, takes the first.
  const PipelineSchedule schedule = of(
      {"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0B1", "2F0 2SEND_F0 1RECV_F0 1F0 1RECV_F1 1F1 1B1"}, 2, {0, 1});
  EXPECT_FALSE(prove(schedule)) << "of other stages";
  // Two ranks with two stages each, 0 and 2 on rank 0; each sends both micro-batches first.
  const PipelineSchedule eager =
      of({"0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2RECV_F1 2F1 2B0 2SEND_B0 2B1 2SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1",
          "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1"},
         2, {0, 1, 0});
  EXPECT_TRUE(prove(eager)) << prove(eager).reason;
  EXPECT_TRUE(prove(eager, {.most_under_way = 1})) << prove(eager, {.most_under_way = 1}).reason;
  const PipelineVerdict blocking = prove(eager, {.most_under_way = 0});
  EXPECT_EQ(texts(blocking.cycle), (std::vector<std::string>{"0:0SEND_F1", "1:1RECV_F1", "1:1SEND_F0", "0:2RECV_F0"}));
  EXPECT_THAT(prove(eager, {.most_under_way = -1}).reason, HasSubstr("most_under_way -1: expected 0 or more"));
}

TEST(Prove, WantsTheSameOrderOfMessagesAtBothEnds) {
  PipelineSchedule schedule = with_messages(gpipe(2, 3));
  std::vector<Action>& actions = schedule.actions[1];
  std::iter_swap(std::ranges::find(actions, Action{ActionKind::ReceiveActivation, 1, 0}),
                 std::ranges::find(actions, Action{ActionKind::ReceiveActivation, 1, 1}));
  EXPECT_EQ(prove(schedule).reason,
            "from rank 0 to rank 1: message 0 is sent as 0SEND_F0 and received as 1RECV_F1, expected 1RECV_F0");
}

TEST(Prove, WantsParametersWhereTheyAreUsed) {
  EXPECT_THAT(prove(of({"0UNSHARD 0F0 0RESHARD 0B0"}, 1, {0})).reason,
              HasSubstr("rank 0: 0B0: the parameters of stage 0 are not unsharded"));
  EXPECT_THAT(prove(of({"0F0 0UNSHARD 0B0 0RESHARD"}, 1, {0})).reason, HasSubstr("0F0: the parameters of stage 0"));
  EXPECT_THAT(prove(of({"0UNSHARD 0UNSHARD 0F0 0B0"}, 1, {0})).reason,
              HasSubstr("0UNSHARD: they are unsharded already"));
  EXPECT_THAT(prove(of({"0RESHARD 0F0 0B0"}, 1, {0})).reason, HasSubstr("0RESHARD: they are not unsharded"));
  EXPECT_THAT(prove(of({"0UNSHARD 0F0 0B0"}, 1, {0})).reason, HasSubstr("stage 0 is not resharded at the end"));
  EXPECT_TRUE(prove(of({"0UNSHARD 0F0 0RESHARD 0UNSHARD 0B0 0RESHARD"}, 1, {0})));
}

TEST(Prove, RefusesWhatIsNoStep) {
  EXPECT_THAT(prove({}).reason, HasSubstr("0 stages and 0 micro-batches: expected 1 or more of each"));
  EXPECT_THAT(prove(of({"0F0 0B0"}, 1, {1})).reason, HasSubstr("stage 0 is on rank 1: there are 1 ranks"));
  EXPECT_THAT(prove(of({"0F0 0B0"}, 1, {-1})).reason, HasSubstr("stage 0 is on rank -1"));
  EXPECT_THAT(prove(of({"0F0 0B0"}, 2147483647, {0})).reason, HasSubstr("2 actions: fewer than the forward passes"));
  EXPECT_THAT(prove(of({"0F0 0B0 1F0"}, 1, {0})).reason, HasSubstr("rank 0: 1F0: the stages are 0..0"));
  EXPECT_THAT(prove(of({"0F0 0B0 0F1"}, 1, {0})).reason, HasSubstr("rank 0: 0F1: the micro-batches are 0..0"));
  EXPECT_THAT(prove(of({"0F0 0B0", "0F0"}, 1, {0})).reason, HasSubstr("rank 1: 0F0: stage 0 is on rank 0"));
  EXPECT_THAT(prove(of({"0F0 0B0 0F0"}, 1, {0})).reason, HasSubstr("rank 0: 0F0 a second time"));
  EXPECT_THAT(prove(of({"0F0 0B0 0REDUCE 0REDUCE"}, 1, {0})).reason,
              HasSubstr("0REDUCE: there are no new gradients of stage 0"));
  EXPECT_THAT(prove(of({"0F0 0REDUCE 0B0"}, 1, {0})).reason, HasSubstr("0REDUCE: there are no new gradients"));
  EXPECT_THAT(prove(of({"0F0 0B0 0REDUCE 0F1 0B1"}, 2, {0})).reason,
              HasSubstr("0REDUCE: 1 gradients of stage 0 come after its last Reduce"));
  EXPECT_TRUE(prove(of({"0F0 0B0 0REDUCE 0F1 0B1 0REDUCE"}, 2, {0})));
  EXPECT_THAT(prove(of({"0F0 0F1 0B0"}, 2, {0})).reason, HasSubstr("rank 0: there is no 0B1"));
  EXPECT_THAT(prove(gpipe(2, 1)).reason, HasSubstr("rank 0: there is no 0SEND_F0"));
  EXPECT_THAT(prove(with_messages(gpipe(2, 1)), {.messages = false}).reason,
              HasSubstr("0SEND_F0: expected a schedule without messages"));
  PipelineSchedule odd = of({"0F0 0B0 0REDUCE"}, 1, {0});
  odd.actions[0].back().micro_batch = 0;
  EXPECT_THAT(prove(odd).reason, HasSubstr("0REDUCE of micro-batch 0: expected -1"));
  odd.actions[0].back() = {ActionKind::Forward, -1, 0};
  EXPECT_THAT(prove(odd).reason, HasSubstr("-1F0: the stages are 0..0"));
}

TEST(Prove, CountsLiveActivationsAsAnotherCountDoes) {
  for (const NamedGenerator& g : generators()) {
    for (const std::int32_t m : {1, 4, 9}) {
      const PipelineSchedule schedule = g.make(4, m, g.virtual_stages(3));
      const LiveActivations live = prove(schedule, {.messages = false}).live;
      std::vector<std::int32_t> by_rank(4, 0), by_stage(schedule.rank_of.size(), 0);
      for (std::size_t r = 0; r < 4; ++r) {
        std::set<std::pair<std::int32_t, std::int32_t>> alive;
        for (const Action& a : schedule.actions[r]) {
          if (a.kind == ActionKind::Forward) alive.emplace(a.stage, a.micro_batch);
          by_rank[r] = std::max(by_rank[r], std::int32_t(alive.size()));
          for (std::int32_t s = 0; s < schedule.stages(); ++s) {
            const auto of_stage = std::ranges::count(alive, s, [](const auto& pass) { return pass.first; });
            by_stage[std::size_t(s)] = std::max(by_stage[std::size_t(s)], std::int32_t(of_stage));
          }
          if (a.kind == ActionKind::Backward || a.kind == ActionKind::WeightGradient)
            alive.erase({a.stage, a.micro_batch});
        }
      }
      EXPECT_EQ(live.by_rank, by_rank) << g.name;
      EXPECT_EQ(live.by_stage, by_stage) << g.name;
    }
  }
}

}  // namespace
}  // namespace sinew::parallel
