#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/selector.hpp>
#include <sinew/core/error.hpp>

#include "fakes/fixed_offload.hpp"
#include "selector_facts.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Selector, TakesAnExchangeForFewBytes_AndARingForMany) {
  const Facts facts = one_host(4, 4);
  const Selector selector(facts, ranks_of(facts), {});
  EXPECT_EQ(selector.select(sum_of(2)).plan.chosen().algorithm, "direct");
  EXPECT_EQ(selector.select(sum_of(16 << 20)).plan.chosen().algorithm, "bidirectional_ring");
}

TEST(Selector, TakesOneMessageRatherThanTwo_WhereBothArePredictedAlike) {
  const Facts facts = one_host(2, 2);
  const Selector selector(facts, ranks_of(facts), {});
  for (std::uint64_t count = 2; count <= 512; count *= 2) {
    const Plan plan = selector.select({.collective = Collective::Broadcast, .dtype = DType::F32, .count = count}).plan;
    EXPECT_NE(plan.chosen().algorithm, "double_binary_tree") << count;  // half of the message down each tree
  }
}

Seconds hierarchical_time(const Facts& facts) {
  const Selection selection = Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20));
  for (const Candidate& c : selection.plan.candidates()) {
    if (c.algorithm == "hierarchical") return c.predicted;
  }
  return 0;
}

/// Across hosts a message takes ten times as long as inside: 8 NICs at a time make most of that good.
TEST(Selector, ExpectsEveryNicToCarryItsStripe_WhereRanksHaveTheirOwn) {
  const Facts shared = hosts_of(8, 8);
  Facts own = shared;
  for (std::size_t r = 0; r < own.ranks.size(); ++r) own.ranks[r].nic = static_cast<int>(r) % 8;
  EXPECT_EQ(hierarchical_time(own), hierarchical_time(shared)) << "what does not go by the nearest NIC, such as tcp";
  own.by_nic = {"wire"};
  EXPECT_GT(hierarchical_time(own), 0);
  EXPECT_LT(hierarchical_time(own), hierarchical_time(shared) / 4);
}

TEST(Selector, GoesByMeasuredTimes_OnGroupsOfThatShape) {
  Facts facts = one_host(4, 4);
  facts.tuned.file = "times.json";
  facts.tuned.ranks_on = {4};
  facts.tuned.ways = {{"all_reduce", "direct", "wire", {{8, 1e-6}, {64 << 20, 2e-6}}}};
  const Plan plan = Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20)).plan;
  EXPECT_EQ(plan.chosen().algorithm, "direct");
  EXPECT_DOUBLE_EQ(plan.chosen().predicted, 2e-6);
  EXPECT_THAT(plan.explain(), AllOf(HasSubstr("timed by tune"), HasSubstr("; timed by tune: times.json")));

  const Plan of_three = Selector(facts, {0, 1, 2}, {}).select(sum_of(16 << 20)).plan;
  EXPECT_NE(of_three.chosen().algorithm, "direct");
  EXPECT_THAT(of_three.explain(), Not(HasSubstr("timed by tune")));
}

/// What tune gave up at small sizes is no candidate for long calls, and what it timed up to 1 MiB says nothing of 64.
TEST(Selector, TrustsMeasuredTimes_AsFarAsTheyGo) {
  Facts facts = one_host(4, 4);
  facts.tuned.ranks_on = {4};
  facts.tuned.ways = {{"all_reduce", "direct", "wire", {{8, 1e-6}, {64, 9e-6}}},
                      {"all_reduce", "ring", "wire", {{8, 1e-6}, {1 << 20, 3e-3}}}};
  const Plan plan = Selector(facts, ranks_of(facts), {}).select(sum_of((1 << 20) / sizeof(float))).plan;
  const auto direct = std::ranges::find(plan.candidates(), "direct", &Candidate::algorithm);
  ASSERT_NE(direct, plan.candidates().end());
  EXPECT_THAT(direct->method, HasSubstr("given up by tune after 64B"));
  EXPECT_GE(direct->predicted, 12e-3);
  EXPECT_LT(direct->predicted, 0.1) << "64 B and 9 us are not 150 ms at 1 MiB";

  const Plan beyond = Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20)).plan;
  EXPECT_THAT(beyond.explain(), Not(HasSubstr("tune")));
}

TEST(Selector, ComposesWhatCrossesHosts) {
  const Facts facts = hosts_of(2, 4);
  const Selector selector(facts, ranks_of(facts), {});
  const Plan plan = selector.select(sum_of(16 << 20)).plan;
  EXPECT_EQ(plan.chosen().algorithm, "hierarchical");
  EXPECT_THAT(plan.chosen().method, HasSubstr("across 2 of them"));
  // Every byte must leave its host once, at a tenth of the rate.
  const Seconds least = (64 << 20) / (kBytesPerSecond / 10);
  EXPECT_GE(plan.chosen().predicted, least);
  EXPECT_LE(plan.chosen().predicted, 1.2 * least);
  EXPECT_EQ(selector.select({.collective = Collective::AllGather, .dtype = DType::F32, .count = 1 << 20})
                .plan.chosen()
                .algorithm,
            "hierarchical");
}

TEST(Selector, LaysARingHostByHost_WhereRanksWereDealtInTurns) {
  Facts side_by_side = hosts_of(2, 4);
  side_by_side.rules = {Rule::parse("all_reduce:0-:ring")};
  Facts in_turns = side_by_side;
  for (int r = 0; r < 8; ++r) in_turns.ranks[static_cast<std::size_t>(r)].host = r % 2;
  const auto ring_on = [](const Facts& facts) {
    return Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20)).plan.chosen();
  };
  EXPECT_EQ(ring_on(in_turns).method, "in the order 0 2 4 6 1 3 5 7");
  EXPECT_DOUBLE_EQ(ring_on(in_turns).predicted, ring_on(side_by_side).predicted);
  EXPECT_EQ(ring_on(side_by_side).method, "");
}

TEST(Selector, ComposesInTheCanonicalOrder_WhereHostsAreNodesOfTheTree) {
  CollectiveDesc desc = sum_of(16 << 20);
  desc.determinism = Determinism::Reproducible;
  const Facts fours = hosts_of(2, 4);
  const Plan composed = Selector(fours, ranks_of(fours), {}).select(desc).plan;
  EXPECT_EQ(composed.chosen().algorithm, "hierarchical");
  EXPECT_THAT(composed.explain(), HasSubstr("adds in an order of its own, not by the canonical tree"));
  const Facts threes = hosts_of(2, 3);
  const Plan flat = Selector(threes, ranks_of(threes), {}).select(desc).plan;
  EXPECT_NE(flat.chosen().algorithm, "hierarchical");
  EXPECT_THAT(flat.explain(), HasSubstr("hosts do not hold aligned powers of two of ranks"));
}

/// hosts_of(), where each message more between hosts takes 5 us.
Facts hosts_with_overhead(int hosts, int ranks_each) {
  Facts facts = hosts_of(hosts, ranks_each);
  for (auto& [where, row] : facts.links) {
    if (where.host_a != where.host_b) row.front().reach.cost.overhead_s = 5e-6;
  }
  return facts;
}

TEST(Selector, ComposesAllToAllOfShortBlocks_WhereMessagesBetweenHostsCost) {
  const Facts facts = hosts_with_overhead(4, 8);
  const Selector selector(facts, ranks_of(facts), {});
  const auto plan = [&](std::uint64_t count) {
    return selector.select({.collective = Collective::AllToAll, .dtype = DType::F32, .count = count}).plan;
  };
  EXPECT_EQ(plan(1).chosen().algorithm, "hierarchical") << plan(1).explain();
  EXPECT_NE(plan(16 << 20).chosen().algorithm, "hierarchical") << plan(16 << 20).explain();
  EXPECT_THAT(plan(16 << 20).explain(), HasSubstr("beside the buffers"));
}

CollectiveDesc all_to_all_v_of(std::uint64_t largest_bytes) {
  return {.collective = Collective::AllToAllV, .dtype = DType::F32, .largest_bytes = largest_bytes};
}

TEST(Selector, ComposesAllToAllVOfFewBytes_ByTheBoundAlone) {
  const Facts facts = hosts_with_overhead(2, 4);
  const Selector selector(facts, ranks_of(facts), {});
  const auto plan = [&](std::uint64_t largest) { return selector.select(all_to_all_v_of(largest)).plan; };
  EXPECT_EQ(plan(1024).chosen().algorithm, "hierarchical") << plan(1024).explain();
  EXPECT_THAT(plan(1024).explain(), HasSubstr("direct inside hosts, direct across 2 of them, blocks with their sizes"));
  EXPECT_NE(plan(64 << 20).chosen().algorithm, "hierarchical") << plan(64 << 20).explain();
  EXPECT_THAT(plan(64 << 20).explain(), HasSubstr("beside the buffers"));
  // Without a bound a call may be long.
  EXPECT_NE(plan(0).chosen().algorithm, "hierarchical") << plan(0).explain();
  EXPECT_EQ(plan(0).chosen().predicted, plan(1 << 20).chosen().predicted);
}

TEST(Selector, PredictsAllToAllVAsAllToAllOfEqualParts_AndTheSizesBeside) {
  const Facts facts = hosts_with_overhead(2, 4);
  const Selector selector(facts, ranks_of(facts), {});
  const auto predicted = [&](const CollectiveDesc& desc, std::string_view algorithm) {
    const Plan plan = selector.select(desc).plan;
    const auto found = std::ranges::find(plan.candidates(), algorithm, &Candidate::algorithm);
    return found == plan.candidates().end() ? Seconds{} : found->predicted;
  };
  for (const std::uint64_t count : {16U, 1024U}) {
    const CollectiveDesc equal{.collective = Collective::AllToAll, .dtype = DType::F32, .count = count};
    const CollectiveDesc parts = all_to_all_v_of(equal.bytes(8));
    EXPECT_DOUBLE_EQ(predicted(parts, "direct"), predicted(equal, "direct"));
    EXPECT_GT(predicted(parts, "hierarchical"), predicted(equal, "hierarchical"));
    EXPECT_LT(predicted(parts, "hierarchical"), 1.3 * predicted(equal, "hierarchical"));
  }
}

TEST(Selector, TakesTheRuleForAllToAllV) {
  Facts facts = hosts_with_overhead(2, 4);
  facts.rules = {Rule::parse("all_to_all_v:0-:hierarchical@*")};
  const Selector selector(facts, ranks_of(facts), {});
  for (const std::uint64_t largest : {0U, 64U, 64U << 20}) {
    const Plan plan = selector.select(all_to_all_v_of(largest)).plan;
    EXPECT_EQ(plan.chosen().algorithm, "hierarchical") << plan.explain();
    EXPECT_THAT(plan.explain(), HasSubstr("the user's rule all_to_all_v:0-:hierarchical@*"));
  }
}

/// Where the two are as close as predictions tell, the one that copies no block of other ranks is taken.
TEST(Selector, SendsBlocksStraight_WhereTheHierarchyIsHardlyFaster) {
  int ties = 0;
  for (const Collective collective : {Collective::AllToAll, Collective::AllToAllV}) {
    const Facts facts = hosts_with_overhead(2, 3);
    const Selector selector(facts, ranks_of(facts), {});
    for (std::uint64_t bytes = 10'000; bytes < 200'000; bytes += bytes / 20 / 24 * 24) {
      const CollectiveDesc desc =
          collective == Collective::AllToAllV
              ? all_to_all_v_of(bytes)
              : CollectiveDesc{.collective = collective, .dtype = DType::F32, .count = bytes / 24};
      const Plan plan = selector.select(desc).plan;
      const auto hierarchical = std::ranges::find(plan.candidates(), "hierarchical", &Candidate::algorithm);
      const Candidate& chosen = plan.chosen();
      if (chosen.algorithm == "hierarchical") {
        const auto direct = std::ranges::find(plan.candidates(), "direct", &Candidate::algorithm);
        EXPECT_GT(direct->predicted, 1.15 * chosen.predicted);
      } else if (hierarchical->rejected.empty() && hierarchical->predicted < chosen.predicted) {
        ++ties;
        EXPECT_LE(chosen.predicted, 1.15 * hierarchical->predicted);
        EXPECT_THAT(plan.explain(), HasSubstr("no block passes through other ranks"));
      }
    }
  }
  EXPECT_GT(ties, 0);
}

TEST(Selector, ChargesForWhatLeavesAHost_HoweverManyRanksSendIt) {
  const Facts facts = hosts_of(2, 4);
  const Plan plan = Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20)).plan;
  const auto halving = std::ranges::find(plan.candidates(), "recursive_doubling", &Candidate::algorithm);
  ASSERT_NE(halving, plan.candidates().end());
  // In its last round each of the four ranks sends the whole message to the other host.
  EXPECT_GE(halving->predicted, 4 * (64 << 20) / (kBytesPerSecond / 10));
}

TEST(Selector, CountsCodedBytes_WhereTheyLeaveAHost) {
  const Facts facts = hosts_of(2, 4);
  CollectiveDesc desc = sum_of(16 << 20);
  desc.codec = Codec::Int8;
  const Plan plan = Selector(facts, ranks_of(facts), {}).select(desc).plan;
  EXPECT_EQ(plan.chosen().algorithm, "hierarchical");
  EXPECT_THAT(plan.chosen().method, HasSubstr("across 2 of them in int8"));
  EXPECT_THAT(plan.explain(), HasSubstr("codec int8"));
  // 260 bytes for every 256 elements, at a tenth of the rate; inside hosts f32 at the full one.
  const Seconds least = (16 << 20) / 256 * 260 / (kBytesPerSecond / 10);
  EXPECT_GE(plan.chosen().predicted, least);
  EXPECT_LE(plan.chosen().predicted, 1.6 * least);
  const auto ring = std::ranges::find(plan.candidates(), "ring", &Candidate::algorithm);
  ASSERT_NE(ring, plan.candidates().end());
  EXPECT_EQ(ring->method, "messages in int8");
}

TEST(Selector, ComposesNothing_WhereAllRanksAreEquallyNear) {
  for (const Facts& facts : {one_host(4, 4), hosts_of(4, 1)}) {
    const Plan plan = Selector(facts, ranks_of(facts), {}).select(sum_of(16 << 20)).plan;
    for (const Candidate& c : plan.candidates()) {
      if (c.algorithm != "hierarchical") continue;
      EXPECT_THAT(c.rejected, HasSubstr("equally near"));
    }
  }
}

TEST(Selector, PredictsFromTheCurve) {
  const Facts facts = one_host(2, 2);
  const Selector selector(facts, ranks_of(facts), {});
  const std::uint64_t count = 1 << 20;
  const double bytes = 4.0 * count;
  const Plan plan = selector.select(sum_of(count)).plan;
  for (const Candidate& c : plan.candidates()) {
    if (c.algorithm != "ring") continue;
    // Two rounds of half the bytes, half of them combined.
    EXPECT_NEAR(c.predicted, 2 * kLatency + bytes / kBytesPerSecond + bytes / 2 / facts.reduce_bytes_per_s,
                1.5 * kLatency);
  }
}

TEST(Selector, PredictsNoTimeForSumsAndCopies_WhereTheTableSaysThatTheyTakeNone) {
  Facts facts = one_host(4, 4);
  facts.copy_bytes_per_s = facts.reduce_bytes_per_s = 0;
  for (const int ranks : {1, 4}) {
    std::vector<int> group = ranks_of(facts);
    group.resize(static_cast<std::size_t>(ranks));
    const Plan plan = Selector(facts, group, {}).select(sum_of(1 << 20)).plan;
    for (const Candidate& c : plan.candidates()) {
      EXPECT_TRUE(std::isfinite(c.predicted)) << c.algorithm << " on " << ranks;
    }
  }
}

TEST(Selector, SaysWhereEachPredictionComesFrom) {
  Facts facts = one_host(2, 2);
  std::vector<NamedOffload> offloads;
  offloads.push_back({"host", std::make_unique<FixedOffload>(1)});
  const auto source = [&](std::string_view algorithm) {
    const Plan plan = Selector(facts, ranks_of(facts), offloads).select(sum_of(2)).plan;
    EXPECT_THAT(plan.explain(), HasSubstr(name_of(plan.chosen().source)));
    return std::ranges::find(plan.candidates(), algorithm, &Candidate::algorithm)->source;
  };
  EXPECT_EQ(source("ring"), CostSource::Default);
  EXPECT_EQ(source("fixed"), CostSource::Default);
  facts.links.begin()->second.front().source = facts.rates_source = CostSource::Measured;
  facts.measured_offloads = {"host"};
  EXPECT_EQ(source("ring"), CostSource::Measured);
  EXPECT_EQ(source("fixed"), CostSource::Measured);
  facts.tuned.file = "times.json";
  facts.tuned.ranks_on = {2};
  facts.tuned.ways = {{"all_reduce", "direct", "wire", {{8, 1e-6}, {64 << 20, 2e-6}}}};
  EXPECT_EQ(source("direct"), CostSource::TunedFile);
}

TEST(Selector, TakesAHierarchy_WhereAFlatScheduleIsPredictedAsFast) {
  constexpr double kTie = 1.15;
  int ties = 0;
  for (const int hosts : {2, 4, 8, 16}) {
    const Facts facts = hosts_of(hosts, 8);
    const Selector selector(facts, ranks_of(facts), {});
    for (std::uint64_t count = 8 << 10; count <= 64 << 20; count *= 2) {
      const Plan plan = selector.select(sum_of(count)).plan;
      Seconds least = plan.chosen().predicted;
      for (const Candidate& c : plan.candidates()) {
        if (c.rejected.empty()) least = std::min(least, c.predicted);
      }
      const auto hierarchy = std::ranges::find(plan.candidates(), "hierarchical", &Candidate::algorithm);
      ASSERT_NE(hierarchy, plan.candidates().end());
      const bool is_tie = hierarchy->rejected.empty() && hierarchy->predicted <= kTie * least;
      EXPECT_EQ(plan.chosen().algorithm == "hierarchical", is_tie) << plan.explain();
      if (!is_tie || hierarchy->predicted <= least) continue;
      ++ties;
      EXPECT_THAT(plan.explain(), HasSubstr("few messages leave each host"));
    }
  }
  EXPECT_GT(ties, 0) << "no case shows it";
}

TEST(Selector, CountsTheTurnsOfTheScheduler_WhenRanksShareCores) {
  const CollectiveDesc desc = sum_of(2);
  const Facts fits = one_host(8, 8);
  const Facts crowded = one_host(8, 2);
  const Seconds alone = Selector(fits, ranks_of(fits), {}).select(desc).plan.chosen().predicted;
  const Seconds shared = Selector(crowded, ranks_of(crowded), {}).select(desc).plan.chosen().predicted;
  EXPECT_GE(shared, 4 * alone + 8 * kSchedulerTurn * 0.999);
  // Two of the eight fit.
  EXPECT_EQ(Selector(crowded, {0, 1}, {}).select(desc).plan.chosen().predicted,
            Selector(fits, {0, 1}, {}).select(desc).plan.chosen().predicted);
}

TEST(Selector, ObeysTheUsersRule_WithinItsSizesOnly) {
  Facts facts = one_host(2, 2);
  facts.rules.push_back(Rule::parse("all_reduce:0-1KiB:binomial"));
  const Selector selector(facts, ranks_of(facts), {});
  EXPECT_EQ(selector.select(sum_of(2)).plan.chosen().algorithm, "binomial");
  EXPECT_NE(selector.select(sum_of(1 << 20)).plan.chosen().algorithm, "binomial");
}

TEST(Selector, TakesNothingThatHoldsTooMuch_UnlessTheUserWantsIt) {
  Facts facts = one_host(8, 8);
  const CollectiveDesc reduce{.collective = Collective::Reduce, .dtype = DType::F32, .count = 16 << 20};
  const Plan plan = Selector(facts, ranks_of(facts), {}).select(reduce).plan;
  EXPECT_NE(plan.chosen().algorithm, "halving_doubling");
  EXPECT_THAT(plan.explain(), HasSubstr("would hold 32MiB beside the buffers, more than 512KiB"));
  CollectiveDesc small = reduce;
  small.count = 1000;
  EXPECT_THAT(Selector(facts, ranks_of(facts), {}).select(small).plan.explain(), Not(HasSubstr("would hold")));
  facts.rules.push_back(Rule::parse("reduce:0-:*@wire"));  // of a transport, and no algorithm
  EXPECT_NE(Selector(facts, ranks_of(facts), {}).select(reduce).plan.chosen().algorithm, "halving_doubling");
  facts.rules.assign(1, Rule::parse("reduce:0-:halving_doubling"));
  EXPECT_EQ(Selector(facts, ranks_of(facts), {}).select(reduce).plan.chosen().algorithm, "halving_doubling");
}

/// The library's own calls are on host memory, whether the offload is here or not.
TEST(Selector, KeepsRulesForDevices_FromHostMemory) {
  for (const char* offload : {"cuda_ipc", "nccl"}) {
    Facts facts = one_host(2, 2);
    facts.rules.push_back(Rule::parse(std::string("*:0-:") + offload));
    const Selector selector(facts, ranks_of(facts), {});
    EXPECT_EQ(selector.select(sum_of(2)).plan.chosen().algorithm, "direct");
    CollectiveDesc on_device = sum_of(2);
    on_device.place = {MemoryKind::Device, 0};
    EXPECT_THROW(static_cast<void>(selector.select(on_device)), Error) << "a rule is an order";
  }
}

TEST(Selector, LeavesGroupsOfOneWithoutRules) {
  Facts facts = one_host(1, 1);
  facts.rules.push_back(Rule::parse("all_reduce:0-1KiB:direct@tcp"));
  const Selector selector(facts, ranks_of(facts), {});
  EXPECT_EQ(selector.select(sum_of(2)).plan.chosen().rejected, "");
}

TEST(Selector, NamesEveryReason_WhenARuleLeavesNothing) {
  Facts facts = one_host(2, 2);
  facts.rules.push_back(Rule::parse("all_reduce:0-1KiB:direct@tcp"));
  const Selector selector(facts, ranks_of(facts), {});
  try {
    (void)selector.select(sum_of(2));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_THAT(e.what(), HasSubstr("nothing can run it on these 2 ranks under the user's rule "
                                    "all_reduce:0-1024:direct@tcp"));
    EXPECT_THAT(e.what(), HasSubstr("; without it there are direct@wire, ")) << "what only the rule is against";
    EXPECT_THAT(e.what(), Not(HasSubstr("direct@wire: "))) << "has no reason of its own";
  }
}

TEST(Selector, ChoosesAlike_OnEveryRankAndEveryTime) {
  const Facts facts = one_host(5, 5);
  for (std::uint64_t count = 1; count < 1 << 24; count *= 3) {
    const Selector a(facts, ranks_of(facts), {});
    const Selector b(facts, ranks_of(facts), {});
    EXPECT_EQ(a.select(sum_of(count)).plan.to_json(), b.select(sum_of(count)).plan.to_json());
  }
}

}  // namespace
}  // namespace sinew::test
