#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/reshard/plan.hpp>
#include <support/worlds.hpp>

#include "random_layouts.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using test::Dice;
using test::random_facts;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kBudget = std::size_t{1} << 20;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// An element of an item in the dtype in which it travels.
using Element = std::tuple<std::string, DType, std::int64_t>;

/// The elements of a part by their indices in each dimension: another way than that of the plan.
std::vector<std::int64_t> elements_of(const PartDescription& part) {
  std::vector<std::int64_t> all;
  for (std::int64_t e = part.extent.first; e < part.extent.last; ++e)
    all.push_back(number_in_whole(part.item.shape, part.extent.box, e));
  return all;
}

/// The fault of a plan; empty: there is none. It looks at each element by itself.
std::string fault_of(const ReshardPlan& plan, const std::vector<ReshardFacts>& facts, std::size_t budget) {
  std::map<std::string, DType> held_dtype;
  std::vector<std::set<std::pair<std::string, std::int64_t>>> held(facts.size());
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const PartDescription& part : facts[r].held) {
      held_dtype[part.item.name] = part.item.dtype;
      for (const std::int64_t e : elements_of(part)) held[r].emplace(part.item.name, e);
    }
  }
  std::vector<std::set<Element>> wanted(facts.size());
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const PartDescription& part : facts[r].wanted) {
      const DType mine = part.item.dtype, theirs = held_dtype[part.item.name];
      const DType travels = size_of(theirs) < size_of(mine) ? theirs : mine;
      for (const std::int64_t e : elements_of(part)) wanted[r].emplace(part.item.name, travels, e);
    }
  }
  std::vector<std::map<Element, std::int32_t>> arrived(facts.size());  // with the round; copies: -2
  std::map<std::pair<int, Element>, int> crossed;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    for (const ReshardSegment& s : plan.copies[r]) {
      for (std::int64_t e = s.first; e < s.first + s.count; ++e) {
        if (!held[r].contains({plan.items[s.item].name, e})) return "a copy of what the rank does not hold";
        if (!arrived[r].emplace(Element{plan.items[s.item].name, s.travels, e}, -2).second) return "copied twice";
      }
    }
  }
  std::vector<std::vector<std::size_t>> bytes(facts.size(), std::vector<std::size_t>(index(plan.rounds) + 1));
  for (const ReshardMessage& m : plan.messages) {
    std::uint64_t sum = 0;
    const bool across = facts[index(m.from)].host != facts[index(m.to)].host;
    if (across != m.across_hosts) return "across hosts or not";
    for (const ReshardSegment& s : m.segments) {
      sum += static_cast<std::uint64_t>(s.count) * size_of(s.travels);
      for (std::int64_t e = s.first; e < s.first + s.count; ++e) {
        const Element element{plan.items[s.item].name, s.travels, e};
        const auto got = arrived[index(m.from)].find(element);
        const bool has = m.passed_on ? got != arrived[index(m.from)].end() && got->second + 2 <= m.round
                                     : held[index(m.from)].contains({plan.items[s.item].name, e});
        if (!has) return "sent by a rank that does not have it";
        if (!arrived[index(m.to)].emplace(element, m.round).second) return "arrives twice";
        if (!across) continue;
        if (++crossed[{facts[index(m.to)].host, element}] > 1) return "crosses to a host twice";
        for (std::size_t r = 0; r < facts.size(); ++r) {
          if (facts[r].host == facts[index(m.to)].host && held[r].contains({plan.items[s.item].name, e}))
            return "crosses to a host that has it";
        }
      }
    }
    if (sum != m.bytes || sum == 0) return "the bytes of a message";
    for (const int r : {m.from, m.to}) bytes[index(r)][index(m.round)] += m.bytes;
  }
  for (std::size_t r = 0; r < facts.size(); ++r) {
    std::set<Element> got;
    for (const auto& [element, round] : arrived[r]) got.insert(element);
    if (got != wanted[r]) return "other elements arrive than are wanted";
    for (std::size_t k = 0; k + 1 < bytes[r].size(); ++k) {
      if (bytes[r][k] + bytes[r][k + 1] > std::min<std::size_t>(budget, plan.most_in_flight)) return "the budget";
    }
  }
  return {};
}

TEST(ReshardPlan, BringsEachWantedElementOnce_BetweenRandomLayouts) {
  std::size_t messages = 0, passed_on = 0, rounds = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const std::vector<ReshardFacts> facts = random_facts(seed);
    const ReshardPlan plan = plan_reshard(facts, 4096);
    ASSERT_EQ(fault_of(plan, facts, 4096), "") << "seed " << seed << "\n" << plan.explain();
    messages += plan.messages.size();
    passed_on += index(std::ranges::count_if(plan.messages, &ReshardMessage::passed_on));
    rounds = std::max(rounds, index(plan.rounds));
  }
  EXPECT_GT(messages, 3000U);
  EXPECT_GT(passed_on, 300U);
  EXPECT_GT(rounds, 20U);
}

/// The check above finds what it looks for.
TEST(ReshardPlan, IsFoundWrong_WhenItIsChanged) {
  const CheckpointItem item{"w", DType::F32, {64, 64}};
  std::vector<ReshardFacts> facts(4);
  for (std::size_t r = 0; r < 4; ++r) facts[r].host = r < 2 ? 0 : 1;
  facts[0].held = {{item, whole_of(item)}};
  for (const std::size_t r : {1, 2, 3}) facts[r].wanted = {{item, whole_of(item)}};
  const ReshardPlan plan = plan_reshard(facts, 8192);
  ASSERT_EQ(fault_of(plan, facts, 8192), "");
  EXPECT_EQ(fault_of(plan, facts, 4096), "the budget");
  ReshardPlan changed = plan;
  changed.messages.pop_back();
  EXPECT_EQ(fault_of(changed, facts, 8192), "other elements arrive than are wanted");
  changed = plan;
  changed.messages.push_back(changed.messages.back());
  EXPECT_EQ(fault_of(changed, facts, 8192), "arrives twice");
  changed = plan;
  std::ranges::find_if(changed.messages, &ReshardMessage::passed_on)->round = 0;
  EXPECT_EQ(fault_of(changed, facts, 8192), "sent by a rank that does not have it");
  std::vector<ReshardFacts> apart = facts;
  apart[3].host = 2;
  EXPECT_EQ(fault_of(plan, apart, 8192), "across hosts or not");
}

/// A rank that sends more than the holders that could send in its place; empty: there is none.
std::string imbalance_of(const ReshardPlan& plan, const std::vector<ReshardFacts>& facts) {
  std::vector<double> across, within;
  for (const ReshardTraffic& t : plan.traffic()) {
    across.push_back(static_cast<double>(t.sent_across_hosts));
    within.push_back(static_cast<double>(t.sent_within_host));
  }
  for (const ReshardMessage& m : plan.messages) {
    if (m.passed_on) continue;
    const std::vector<double>& sent = m.across_hosts ? across : within;
    for (const ReshardSegment& s : m.segments) {
      double sum = 0, eligible = 0;
      for (std::size_t r = 0; r < facts.size(); ++r) {
        if (!m.across_hosts && facts[r].host != facts[index(m.from)].host) continue;
        const auto holds_it = [&](const PartDescription& part) { return part.item == plan.items[s.item]; };
        const bool holds = std::ranges::any_of(facts[r].held, holds_it);
        sum += holds ? sent[r] : 0;
        eligible += holds ? 1 : 0;
      }
      if (sent[index(m.from)] > 1.1 * sum / eligible + 65536)  // ranges have 4 KiB or more
        return fmt::format("rank {} sends {} bytes, of {} holders with {} on average", m.from, sent[index(m.from)],
                           eligible, sum / eligible);
    }
  }
  return {};
}

TEST(ReshardPlan, DividesWorkAmongHolders) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    std::vector<ReshardFacts> facts(8);
    for (std::size_t r = 0; r < 8; ++r) facts[r].host = static_cast<int>(r / static_cast<std::size_t>(1 + seed % 5));
    for (int i = 0; i < 12; ++i) {
      const CheckpointItem item{"item " + std::to_string(i), DType::F32, {dice.roll(100'000, 3'000'000)}};
      for (std::int64_t copies = dice.roll(1, 5), first = dice.roll(0, 7), c = 0; c < copies; ++c)
        facts[index((first + c * dice.roll(1, 2)) % 8)].held.push_back({item, whole_of(item)});
      for (std::size_t r = 0; r < 8; ++r) {
        if (dice.roll(0, 3) == 0) facts[r].wanted.push_back({item, whole_of(item)});
      }
    }
    const ReshardPlan plan = plan_reshard(facts, std::size_t{64} << 20);
    EXPECT_EQ(imbalance_of(plan, facts), "") << "seed " << seed << "\n" << plan.explain();
  }
}

/// The check above finds one holder that sends everything.
TEST(ReshardPlan, IsFoundUnbalanced_WhenOneOfTwoHoldersSendsEverything) {
  const CheckpointItem item{"w", DType::F32, {1 << 20}};
  const std::vector<PartDescription> whole{{item, whole_of(item)}};
  const std::vector<ReshardFacts> facts{{0, whole, {}}, {1, whole, {}}, {2, {}, whole}};
  ReshardPlan plan = plan_reshard(facts, kBudget);
  EXPECT_EQ(imbalance_of(plan, facts), "");
  for (ReshardMessage& m : plan.messages) m.from = 0;
  EXPECT_THAT(imbalance_of(plan, facts), HasSubstr("rank 0 sends 4194304 bytes, of 2 holders with 2097152"));
}

/// A trainer of tp 2 x dp 2 on one host, and inference on two other hosts with tp 2 each.
TEST(ReshardPlan, CrossesOncePerHost_FromATrainerToInference) {
  const CheckpointItem trained{"w", DType::F32, {4096, 1024}}, used{"w", DType::BF16, {4096, 1024}};
  std::vector<ReshardFacts> facts(8);
  for (std::size_t r = 0; r < 8; ++r) {
    facts[r].host = r < 4 ? 0 : r < 6 ? 1 : 2;
    const auto tp = static_cast<std::int64_t>(r % 2);
    if (r < 4) {
      facts[r].held = {{trained, box_of({{0, 512 * tp}, {4096, 512 * tp + 512}})}};
    } else {
      facts[r].wanted = {{used, box_of({{2048 * tp, 0}, {2048 * tp + 2048, 1024}})}};
    }
  }
  const ReshardPlan plan = plan_reshard(facts, kBudget);
  constexpr std::uint64_t kHost = 4096ULL * 1024 * 2;
  const std::vector<ReshardTraffic> traffic = plan.traffic();
  std::uint64_t across = 0;
  for (std::size_t r = 0; r < 8; ++r) {
    across += traffic[r].sent_across_hosts;
    EXPECT_EQ(traffic[r].sent_within_host, 0U);
    EXPECT_EQ(traffic[r].received_across_hosts, r < 4 ? 0 : kHost / 2);
    EXPECT_NEAR(static_cast<double>(traffic[r].sent_across_hosts), r < 4 ? kHost / 2.0 : 0, kHost / 100.0);
  }
  EXPECT_EQ(across, 2 * kHost);
  EXPECT_THAT(plan.explain(), AllOf(HasSubstr("across hosts 16.8 MB; within hosts 0 B"), HasSubstr("rank 3: sends ")));
}

/// Copies on two ranks of a host: each byte crosses once, half of them to either rank.
TEST(ReshardPlan, DividesWhatCrossesAmongTheRanksOfAHost) {
  const CheckpointItem item{"w", DType::F32, {1 << 20}};
  std::vector<ReshardFacts> facts(3);
  facts[0].held = {{item, whole_of(item)}};
  for (const std::size_t r : {1, 2}) {
    facts[r].host = 1;
    facts[r].wanted = {{item, whole_of(item)}};
  }
  const std::vector<ReshardTraffic> traffic = plan_reshard(facts, kBudget).traffic();
  EXPECT_EQ(traffic[0].sent_across_hosts, 4U << 20);
  for (const std::size_t r : {1, 2}) {
    EXPECT_EQ(traffic[r].received_across_hosts, 2U << 20);
    EXPECT_EQ(traffic[r].sent_within_host, 2U << 20);
  }
}

TEST(ReshardPlan, IsOfThreeRounds_WhereTwoRanksOfAHostPassOn) {
  const CheckpointItem item{"w", DType::U8, {8}};
  std::vector<ReshardFacts> facts(3);
  facts[0].held = {{item, whole_of(item)}};
  for (const std::size_t r : {1, 2}) facts[r] = {1, {}, {{item, whole_of(item)}}};
  const ReshardPlan plan = plan_reshard(facts, kBudget);
  ASSERT_EQ(plan.messages.size(), 2U);  // eight bytes are not divided
  EXPECT_EQ(plan.rounds, 3);
  EXPECT_TRUE(plan.messages[1].passed_on);
}

TEST(ReshardPlan, TravelsInTheDtypeOfFewerBytes) {
  EXPECT_EQ(travelling_dtype(DType::F32, DType::BF16), DType::BF16);
  EXPECT_EQ(travelling_dtype(DType::BF16, DType::F32), DType::BF16);
  EXPECT_EQ(travelling_dtype(DType::BF16, DType::F16), DType::F16);
  EXPECT_EQ(travelling_dtype(DType::I64, DType::I64), DType::I64);
  EXPECT_THAT(complaint([] { static_cast<void>(travelling_dtype(DType::I32, DType::F32)); }),
              HasSubstr("i32 cannot be converted to f32"));
}

std::string fault(const std::vector<PartDescription>& held, const std::vector<PartDescription>& more,
                  const std::vector<PartDescription>& wanted, std::size_t budget = kBudget) {
  return complaint([&] { static_cast<void>(plan_reshard({{0, held, {}}, {0, more, {}}, {0, {}, wanted}}, budget)); });
}

TEST(ReshardPlan, NamesWhatCannotBe) {
  const CheckpointItem w{"w", DType::F32, {4, 8}}, turned{"w", DType::F32, {8, 4}}, half{"w", DType::F16, {4, 8}},
      whole_numbers{"w", DType::I32, {4, 8}}, other{"v", DType::F32, {3}};
  const std::vector<PartDescription> all{{w, whole_of(w)}};
  EXPECT_EQ(fault(all, {}, all), "no complaint");
  EXPECT_THAT(fault({{w, range_of(w, 0, 20)}}, {{w, range_of(w, 24, 32)}}, all),
              HasSubstr("elements [20, 24) of 'w' (f32 [4, 8]): rank 2 wants them, and no rank holds them"));
  EXPECT_THAT(fault(all, {}, {{other, whole_of(other)}}), HasSubstr("elements [0, 3) of 'v' (f32 [3]): rank 2 wants"));
  EXPECT_THAT(fault(all, {{turned, whole_of(turned)}}, {}),
              HasSubstr("rank 0 holds 'w' (f32 [4, 8]), rank 1 holds 'w' (f32 [8, 4])"));
  EXPECT_THAT(fault(all, {{half, whole_of(half)}}, {}), HasSubstr("rank 1 holds 'w' (f16 [4, 8])"));
  EXPECT_THAT(fault(all, {}, {{turned, whole_of(turned)}}), HasSubstr("rank 2 wants 'w' (f32 [8, 4])"));
  EXPECT_THAT(fault(all, {}, {{whole_numbers, whole_of(whole_numbers)}}),
              HasSubstr("rank 0 holds 'w' (f32 [4, 8]), rank 2 wants 'w' (i32 [4, 8]); expected the same dtype"));
  EXPECT_THAT(fault(all, {}, {{w, range_of(w, 0, 9)}, {half, range_of(w, 7, 12)}}),
              HasSubstr("elements [7, 9) of 'w' (f32 [4, 8]): rank 2 wants them in two parts"));
  EXPECT_THAT(fault(all, {}, all, 4095), HasSubstr("4095 bytes in flight, expected at least 4096"));
}

TEST(ReshardPlan, KnowsWhetherAllIsHeld) {
  const CheckpointItem w{"w", DType::F32, {4, 8}};
  const auto held = [&](std::int64_t first, std::int64_t last) {
    return are_held({{0, {{w, range_of(w, 0, 14)}}, {}},
                     {0, {{w, range_of(w, first, last)}}, {}},
                     {0, {}, {{w, box_of({{0, 2}, {4, 6}})}}}});
  };
  EXPECT_TRUE(held(12, 30));
  EXPECT_TRUE(held(18, 30));  // nobody wants elements 14 to 17
  EXPECT_FALSE(held(14, 29));
  EXPECT_FALSE(held(19, 30));
  EXPECT_FALSE(are_held({{0, {}, {{w, whole_of(w)}}}}));
}

TEST(ReshardPlan, IsEmpty_WhereNobodyWantsAnything) {
  const CheckpointItem w{"w", DType::F32, {4, 8}};
  const ReshardPlan plan = plan_reshard({{0, {{w, whole_of(w)}}, {}}, {1, {}, {}}}, kBudget);
  EXPECT_EQ(plan.rounds, 0);
  EXPECT_TRUE(plan.messages.empty());
  EXPECT_EQ(plan.copies.size(), 2U);
}

}  // namespace
}  // namespace sinew::parallel
