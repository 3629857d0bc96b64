#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../executor.hpp"

namespace sinew::parallel {
namespace {

PipelineSchedule some_schedule(std::mt19937& random) {
  const NamedGenerator& g = generators()[random() % generators().size()];
  const auto p = std::int32_t(random() % 3 + 2), m = std::int32_t(random() % 4 + 1);
  PipelineSchedule schedule = g.make(p, m, g.virtual_stages(std::int32_t(random() % 2 + 1)));
  if (random() % 3 == 0) schedule = with_recompute(std::move(schedule));
  schedule = with_messages(std::move(schedule));
  if (random() % 3 == 0)
    schedule = with_sharding(std::move(schedule), 1, random() % 2 == 0 ? ReduceEvery::Step : ReduceEvery::MicroBatch);
  return schedule;
}

enum class Mutation : std::uint8_t {
  SwapTwo,
  SwapNeighbours,
  Drop,
  Duplicate,
  MoveToAnotherRank,
  SwapMessages,
  PostLate,
};
constexpr int kMutations = 7;

/// Two messages of a rank change places.
void swap_messages(std::vector<Action>& actions, std::mt19937& random) {
  std::vector<std::size_t> messages;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (is_message(actions[i].kind)) messages.push_back(i);
  }
  std::swap(actions[messages[random() % messages.size()]], actions[messages[random() % messages.size()]]);
}

/// Receives of a rank are posted right before what needs them.
void post_late(std::vector<Action>& actions) {
  std::vector<Action> result;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::ReceiveActivation || a.kind == ActionKind::ReceiveGradient) continue;
    const bool is_forward = a.kind == ActionKind::Forward;
    const Action receive{is_forward ? ActionKind::ReceiveActivation : ActionKind::ReceiveGradient, a.stage,
                         a.micro_batch};
    const bool may_need = is_forward || a.kind == ActionKind::Backward || a.kind == ActionKind::InputGradient;
    if (may_need && std::ranges::find(actions, receive) != actions.end()) result.push_back(receive);
    result.push_back(a);
  }
  actions = std::move(result);
}

void mutate(PipelineSchedule& schedule, Mutation mutation, std::mt19937& random) {
  std::vector<Action>& actions = schedule.actions[random() % schedule.actions.size()];
  const std::size_t i = random() % actions.size(), j = random() % actions.size();
  const auto at = [](std::vector<Action>& of_rank, std::size_t place) {
    return of_rank.begin() + static_cast<std::ptrdiff_t>(place);
  };
  std::vector<Action>& other = schedule.actions[random() % schedule.actions.size()];
  const Action a = actions[i];
  switch (mutation) {
    case Mutation::SwapTwo: std::swap(actions[i], actions[j]); break;
    case Mutation::SwapNeighbours: std::swap(actions[i], actions[(i + 1) % actions.size()]); break;
    case Mutation::Drop: actions.erase(at(actions, i)); break;
    case Mutation::Duplicate: actions.insert(at(actions, j), a); break;
    case Mutation::MoveToAnotherRank:
      actions.erase(at(actions, i));
      other.insert(at(other, random() % (other.size() + 1)), a);
      break;
    case Mutation::SwapMessages: swap_messages(actions, random); break;
    case Mutation::PostLate: post_late(actions); break;
  }
}

TEST(Mutants, AreRefusedWhereTheyFail_AndOnlyThere) {
  std::mt19937 random(2026);
  std::array<int, kMutations> refused{}, accepted{};
  int with_circle = 0, by_room = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto kind = static_cast<std::size_t>(i % kMutations);
    PipelineSchedule schedule = some_schedule(random);
    const std::string before = to_csv(schedule);
    mutate(schedule, static_cast<Mutation>(kind), random);
    bool first = true, runs = true;
    for (const std::optional<std::int32_t> most : {std::optional<std::int32_t>(), {2}, {1}, {0}}) {
      const PipelineVerdict verdict = prove(schedule, {.most_under_way = most});
      const std::string wrong = test::execute(schedule, random, most);
      ASSERT_EQ(verdict.ok, wrong.empty())
          << "mutation " << kind << " of\n"
          << before << "is\n"
          << to_csv(schedule) << "room " << most.value_or(-1) << "\nproof: " << verdict.reason << "\nrun: " << wrong;
      ASSERT_EQ(verdict.ok, verdict.reason.empty());
      if (first) ++(verdict ? accepted : refused)[kind];
      if (!verdict.cycle.empty()) ++with_circle;
      if (runs && !verdict && !first) ++by_room;
      runs = verdict.ok;
      first = false;
    }
  }
  for (std::size_t kind = 0; kind < kMutations; ++kind) {
    EXPECT_TRUE(refused[kind] > 50 || static_cast<Mutation>(kind) == Mutation::PostLate)
        << kind << ": " << refused[kind];
    EXPECT_TRUE(accepted[kind] > 5 || static_cast<Mutation>(kind) == Mutation::Duplicate)
        << kind << ": " << accepted[kind];
  }
  EXPECT_GT(with_circle, 500);
  EXPECT_GT(by_room, 5) << "run only with more room for messages";
}

}  // namespace
}  // namespace sinew::parallel
