#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <support/sanitized.hpp>
#include <support/worlds.hpp>

#include "number_engine.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using test::NumberEngine;

void run_steps(World& world, const PipelineSchedule& schedule) {
  NumberEngine engine(schedule.stages(), schedule.micro_batches);
  PipelineRunner runner(world.communicator(), schedule, engine);
  for (int step = 0; step < 3; ++step) {
    engine = NumberEngine(schedule.stages(), schedule.micro_batches);
    runner.run();
    engine.require_right(schedule, world.rank(), to_csv(schedule));
  }
}

bool is_proved(const PipelineSchedule& schedule) { return bool(prove(schedule, {.most_under_way = kMessagePlaces})); }

/// Orders that no generator makes.
TEST(PipelineOrders, RunAsTheyAreWritten_OverEveryTransport) {
  const std::vector<std::string_view> texts{
      // All is made before anything is sent, all is received before anything is read.
      "0F0,0F1,0F2,0SEND_F0,0SEND_F1,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
      "1RECV_F0,1RECV_F1,1RECV_F2,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2\n",
      // All receives at the front.
      "0RECV_B0,0RECV_B1,0RECV_B2,0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0B0,0B1,0B2\n"
      "1RECV_F0,1RECV_F1,1RECV_F2,1F0,1F1,1F2,1B0,1B1,1B2,1SEND_B0,1SEND_B1,1SEND_B2\n",
      // What is sent late is sent in another order than it was made in.
      "0F0,0F1,0F2,0F3,0SEND_F2,0SEND_F0,0SEND_F3,0SEND_F1,0RECV_B3,0B3,0RECV_B2,0RECV_B1,0RECV_B0,0B0,0B1,0B2\n"
      "1RECV_F2,1RECV_F0,1RECV_F3,1RECV_F1,1F0,1F1,1F2,1F3,1B3,1SEND_B3,1B2,1B1,1SEND_B2,1B0,1SEND_B1,1SEND_B0\n",
      // 0F3 comes long before its send: between them is what rank 2, then rank 1 wait for before 1RECV_F1.
      "0F0,0SEND_F0,3RECV_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,3F0,3B0,3SEND_B0,0SEND_F3,3RECV_F1,3F1,3B1,3SEND_B1,"
      "3RECV_F2,3F2,3B2,3SEND_B2,3RECV_F3,3F3,3B3,3SEND_B3,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3\n"
      "1RECV_F0,1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0,1RECV_F1,1F1,1SEND_F1,1RECV_F2,1F2,1SEND_F2,1RECV_F3,1F3,1SEND_F3,"
      "1RECV_B1,1B1,1SEND_B1,1RECV_B2,1B2,1SEND_B2,1RECV_B3,1B3,1SEND_B3\n"
      "2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,2RECV_F1,2F1,2SEND_F1,2RECV_F2,2F2,2SEND_F2,2RECV_F3,2F3,2SEND_F3,"
      "2RECV_B1,2B1,2SEND_B1,2RECV_B2,2B2,2SEND_B2,2RECV_B3,2B3,2SEND_B3\n"};
  for (const std::string_view text : texts) {
    const PipelineSchedule schedule = from_csv(text, "by hand");
    ASSERT_TRUE(is_proved(schedule)) << prove(schedule, {.most_under_way = kMessagePlaces}).reason;
    for (const char* transport : {"inproc", "shm", "tcp"})
      on_threads(schedule.ranks(), only(transport), [&](World& world) { run_steps(world, schedule); });
  }
}

TEST(PipelineOrders, OfGeneratorsRunOverEveryTransport) {
  for (const NamedGenerator& generator : generators()) {
    const PipelineSchedule schedule = with_messages(generator.make(3, 4, generator.virtual_stages(2)));
    for (const char* transport : {"shm", "tcp"})
      on_threads(3, only(transport), [&](World& world) { run_steps(world, schedule); });
  }
}

/// Two places where each message is sent as soon as it is made.
TEST(PipelineOrders, TakePlacesForWhatIsMadeAheadOfItsSend) {
  const auto places = [](std::string_view text) {
    const PipelineSchedule schedule = from_csv(text, "by hand");
    return step_of(schedule, 0, {0, 8}).places.at({1, false});
  };
  const std::string_view other = "1RECV_F0,1RECV_F1,1RECV_F2,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2\n";
  const std::string back = ",0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n";
  const auto rank_0 = [&](std::string_view forward) { return std::string(forward) + back + std::string(other); };
  EXPECT_EQ(places(rank_0("0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2")), 2);
  EXPECT_EQ(places(rank_0("0F0,0F1,0SEND_F0,0SEND_F1,0F2,0SEND_F2")), 2);
  EXPECT_EQ(places(rank_0("0F0,0F1,0F2,0SEND_F0,0SEND_F1,0SEND_F2")), 3);
}

/// Takes, again and again, any action that can be taken: computes and messages in an order that could be.
class RandomOrder {
 public:
  RandomOrder(const PipelineSchedule& all, std::mt19937& random) : all_(all), random_(random) {}

  PipelineSchedule make() {
    PipelineSchedule made = all_;
    for (auto& of_rank : made.actions) of_rank.clear();
    for (;;) {
      std::vector<Action> able;
      for (const auto& of_rank : all_.actions)
        std::ranges::copy_if(of_rank, std::back_inserter(able), [&](const Action& a) { return can_be_taken(a); });
      if (able.empty()) break;
      const Action a = able[random_() % able.size()];
      const std::int32_t rank = rank_of(all_, a.stage);
      if (is_send(a.kind)) sent_[{rank, peer_of(a)}].push_back(received_by(a));
      made.actions[static_cast<std::size_t>(rank)].push_back(a);
      taken_.push_back(a);
    }
    for (auto& of_rank : made.actions) post_sooner(of_rank);
    return made;
  }

 private:
  static bool is_send(ActionKind kind) {
    return kind == ActionKind::SendActivation || kind == ActionKind::SendGradient;
  }
  static Action received_by(const Action& send) {
    return send.kind == ActionKind::SendActivation
               ? Action{ActionKind::ReceiveActivation, send.stage + 1, send.micro_batch}
               : Action{ActionKind::ReceiveGradient, send.stage - 1, send.micro_batch};
  }
  std::int32_t peer_of(const Action& send) const { return rank_of(all_, received_by(send).stage); }
  bool is_taken(const Action& a) const { return std::ranges::find(taken_, a) != taken_.end(); }
  bool is_there(ActionKind kind, std::int32_t stage, std::int32_t m) const { return is_taken({kind, stage, m}); }

  bool can_be_taken(const Action& a) const {
    if (is_taken(a)) return false;
    const std::int32_t s = a.stage, m = a.micro_batch;
    switch (a.kind) {
      case ActionKind::Forward:
        return s == 0 || is_there(is_cut_after(all_, s - 1) ? ActionKind::ReceiveActivation : ActionKind::Forward,
                                  is_cut_after(all_, s - 1) ? s : s - 1, m);
      case ActionKind::Backward:
        return is_there(ActionKind::Forward, s, m) &&
               (s + 1 == all_.stages() ||
                is_there(is_cut_after(all_, s) ? ActionKind::ReceiveGradient : ActionKind::Backward,
                         is_cut_after(all_, s) ? s : s + 1, m));
      case ActionKind::SendActivation: return is_there(ActionKind::Forward, s, m);
      case ActionKind::SendGradient: return is_there(ActionKind::Backward, s, m);
      default: break;
    }
    for (const auto& [channel, messages] : sent_) {  // in the order of the sends
      const auto place = std::ranges::find(messages, a);
      if (place != messages.end())
        return std::all_of(messages.begin(), place, [&](const Action& before) { return is_taken(before); });
    }
    return false;
  }
  /// Receives may be posted before they were sent, in their order.
  void post_sooner(std::vector<Action>& actions) {
    std::size_t earliest = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!is_message(actions[i].kind) || is_send(actions[i].kind)) continue;
      const std::size_t to = random_() % 2 == 0 ? i : earliest + random_() % (i - earliest + 1);
      std::rotate(actions.begin() + static_cast<std::ptrdiff_t>(to), actions.begin() + static_cast<std::ptrdiff_t>(i),
                  actions.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      earliest = to + 1;
    }
  }

  const PipelineSchedule& all_;
  std::mt19937& random_;
  std::vector<Action> taken_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Action>> sent_;  // what receives them, by ranks
};

TEST(PipelineOrders, AnyThatIsProvedRuns) {
  std::mt19937 random(11);
  int proved = 0, tried = 0;
  const int most = sinew::test::kSanitized ? 30 : 100;
  for (; tried < most; ++tried) {
    const std::int32_t ranks = 2 + static_cast<std::int32_t>(random() % 2),
                       stages_each = 1 + static_cast<std::int32_t>(random() % 2),
                       micro_batches = 1 + static_cast<std::int32_t>(random() % 6);
    const PipelineSchedule all = with_messages(looped_breadth_first(ranks, micro_batches, stages_each));
    const PipelineSchedule schedule = RandomOrder(all, random).make();
    ASSERT_TRUE(prove(schedule)) << to_csv(schedule);  // with room for any number of messages
    if (!is_proved(schedule)) continue;
    ++proved;
    on_threads(ranks, only("inproc"), [&](World& world) { run_steps(world, schedule); });
    ASSERT_FALSE(::testing::Test::HasFailure()) << to_csv(schedule);
  }
  EXPECT_GE(proved, tried / 5) << "of " << tried;
}

}  // namespace
}  // namespace sinew::parallel
