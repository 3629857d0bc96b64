#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/catalog/named_networks.hpp>

#include "flat_network.hpp"

namespace sinew {
namespace {

using ::testing::HasSubstr;

using test::flat;
using test::IsWithin;
using test::kLatency;
using test::kRate;

CollectiveDesc call(Collective collective, std::uint64_t count) {
  return {.collective = collective, .dtype = DType::F32, .count = count};
}

Recipe algorithm(Collective collective, std::string_view name) { return *find_algorithm(collective, name); }

Recipe hierarchy(const Network& network, std::string_view across = "ring") {
  return HierarchicalAlgorithm{levels_of(network), "direct", across};
}

double part_of(const Forecast& forecast, Tier tier) {
  const auto found = std::ranges::find(forecast.loads, tier, &Forecast::Load::tier);
  return found == forecast.loads.end() ? 0 : found->bytes;
}

TEST(Simulate, MeetsTheClosedFormOfARing) {
  for (const int ranks : {2, 3, 5, 8, 16, 64}) {
    const CollectiveDesc desc = call(Collective::AllReduce, 10'000 * static_cast<std::uint64_t>(ranks));
    const double n = 4.0 * static_cast<double>(desc.count);
    const Forecast f = simulate(algorithm(desc.collective, "ring"), desc, flat(ranks));
    EXPECT_THAT(f.seconds, IsWithin(0.01, 2 * (ranks - 1) * (kLatency + n / (ranks * kRate)))) << ranks;
    EXPECT_THAT(f.busbw_bytes_per_s, IsWithin(0.01, 2 * (ranks - 1.0) / ranks * n / f.seconds)) << ranks;
    const CollectiveDesc gather = call(Collective::AllGather, 10'000);
    EXPECT_THAT(simulate(algorithm(gather.collective, "ring"), gather, flat(ranks)).seconds,
                IsWithin(0.01, (ranks - 1) * (kLatency + 40'000 / kRate)))
        << ranks;
  }
}

TEST(Simulate, AddsTheSumsOfARing_WhereTheyTakeTime) {
  constexpr int kRanks = 8;
  Network n = flat(kRanks);
  n.reduce_bytes_per_s = kRate / 2;
  const CollectiveDesc desc = call(Collective::AllReduce, 80'000);
  EXPECT_THAT(simulate(algorithm(desc.collective, "ring"), desc, n).seconds,
              IsWithin(0.01, (kRanks - 1) * (2 * kLatency + 4 * 40'000 / kRate)));
}

/// A rank encodes its elements, sends half as many bytes, and decodes the elements that it has received. It decodes its
/// own elements during the transfer.
TEST(Simulate, TakesAPassOverTheElements_ToEncodeAndToDecode) {
  Network n = flat(2);
  n.reduce_bytes_per_s = 4 * kRate;
  CollectiveDesc desc = call(Collective::AllGather, 10'000);
  desc.codec = Codec::Bf16;
  constexpr double kBytes = 40'000;
  EXPECT_THAT(simulate(algorithm(desc.collective, "ring"), desc, n).seconds,
              IsWithin(1e-6, 2 * kBytes / n.reduce_bytes_per_s + kLatency + kBytes / 2 / kRate));
}

TEST(Simulate, MeetsTheClosedFormOfHalvingAndDoubling) {
  for (const int ranks : {2, 4, 8, 16, 64}) {
    const CollectiveDesc desc = call(Collective::AllReduce, 640'000);
    const double n = 4.0 * static_cast<double>(desc.count), part = (ranks - 1.0) / ranks;
    EXPECT_THAT(simulate(algorithm(desc.collective, "halving_doubling"), desc, flat(ranks)).seconds,
                IsWithin(0.01, 2 * std::log2(ranks) * kLatency + 2 * part * n / kRate))
        << ranks;
  }
}

/// Up, a rank takes from one child after the other: depth * (a + n/b). Down, it gives to all at once: the root's k
/// children have it after a + k n/b, the first of them does the same for k - 1, and so on.
TEST(Simulate, MeetsTheClosedFormsOfABinomialTree) {
  for (const int depth : {1, 2, 3, 6}) {
    const int ranks = 1 << depth;
    constexpr double kMoving = 400'000 / kRate;
    const CollectiveDesc up = call(Collective::Reduce, 100'000);
    EXPECT_THAT(simulate(algorithm(up.collective, "binomial"), up, flat(ranks)).seconds,
                IsWithin(0.01, depth * (kLatency + kMoving)))
        << depth;
    const CollectiveDesc down = call(Collective::Broadcast, 100'000);
    EXPECT_THAT(simulate(algorithm(down.collective, "binomial"), down, flat(ranks)).seconds,
                IsWithin(0.01, depth * kLatency + kMoving * depth * (depth + 1) / 2))
        << depth;
    const CollectiveDesc token = call(Collective::Broadcast, 1);
    EXPECT_THAT(simulate(algorithm(token.collective, "binomial"), token, flat(ranks)).seconds,
                IsWithin(0.01, depth * kLatency))
        << depth;
  }
}

/// Of all messages, by whether they stay on their host, leave it, or leave their leaf: counted in the programs.
struct Counted {
  double inside = 0, across = 0, spine = 0;
};

Counted count(const Recipe& recipe, const CollectiveDesc& desc, const Network& n) {
  Counted bytes;
  for (int rank = 0; rank < n.ranks(); ++rank) {
    const Program p = recipe.build(desc, rank, n.ranks(), false);
    const ChunkTable chunks = chunk_table(desc, p);
    for (const Step& s : p.steps) {
      if (s.op != Op::Send) continue;
      const auto& row = s.a.space == Space::In ? chunks.in : s.a.space == Space::Out ? chunks.out : chunks.scratch;
      double length = 0;
      for (std::uint32_t c = s.a.first; c < s.a.first + s.a.count; ++c)
        length += 4.0 * static_cast<double>(row[c].count);
      const int a = rank / n.ranks_per_host, b = s.peer / n.ranks_per_host;
      (a == b ? bytes.inside : bytes.across) += length;
      if (n.form == NetworkForm::FatTree && a / n.hosts_per_leaf != b / n.hosts_per_leaf) bytes.spine += length;
    }
  }
  return bytes;
}

TEST(Simulate, PutsOnLinksWhatTheScheduleSends) {
  const Network n = fat_tree(host_model("dgx-h100"), 8, 4, 2);
  std::vector<double> across;
  for (const auto& [collective, name] :
       std::vector<std::pair<Collective, std::string_view>>{{Collective::AllReduce, "ring"},
                                                            {Collective::AllReduce, "halving_doubling"},
                                                            {Collective::AllReduce, "double_binary_tree"},
                                                            {Collective::AllReduce, "hierarchical"},
                                                            {Collective::AllGather, "bruck"},
                                                            {Collective::AllGather, "hierarchical"},
                                                            {Collective::ReduceScatter, "hierarchical"},
                                                            {Collective::AllToAll, "pairwise"},
                                                            {Collective::Scatter, "direct"}}) {
    const CollectiveDesc desc = call(collective, collective == Collective::AllReduce ? 6'400'000 : 12'800);
    const Recipe recipe = name == kHierarchical ? hierarchy(n) : algorithm(collective, name);
    const Counted expected = count(recipe, desc, n);
    for (const bool every_rank : {false, true}) {
      const Forecast f = simulate(recipe, desc, n, {.every_rank = every_rank});
      const std::string where = std::string(name) + " of " + std::string(name_of(collective));
      EXPECT_THAT(part_of(f, Tier::RankOut), IsWithin(1e-9, expected.inside)) << where;
      EXPECT_THAT(part_of(f, Tier::RankIn), IsWithin(1e-9, expected.inside)) << where;
      EXPECT_THAT(part_of(f, Tier::NicOut), IsWithin(1e-9, expected.across)) << where;
      EXPECT_THAT(part_of(f, Tier::PciIn), IsWithin(1e-9, expected.across)) << where;
      EXPECT_THAT(part_of(f, Tier::LeafUp), IsWithin(1e-9, expected.spine)) << where;
      EXPECT_THAT(part_of(f, Tier::LeafDown), IsWithin(1e-9, expected.spine)) << where;
    }
    across.push_back(expected.across);
  }
  EXPECT_NE(across[0], across[1]);  // algorithms differ in what is compared
}

struct SmallCase {
  Collective collective;
  std::string_view name;
  std::uint64_t count;
};

const std::vector<SmallCase> kAlike = {{Collective::AllReduce, "ring", 4'096'000},
                                       {Collective::AllReduce, "ring", 64'000'000},
                                       {Collective::AllReduce, "halving_doubling", 4'096'000},
                                       {Collective::AllReduce, "bidirectional_ring", 64'000},
                                       {Collective::AllGather, "ring", 100'000},
                                       {Collective::AllGather, "hierarchical", 100'000},
                                       {Collective::AllGather, "recursive_doubling", 100'000},
                                       {Collective::ReduceScatter, "ring", 100'000},
                                       {Collective::AllToAll, "pairwise", 100'000},
                                       {Collective::AllToAll, "direct", 1'000},
                                       {Collective::AllToAll, "direct", 100'000},
                                       {Collective::AllToAll, "bruck", 1'000},
                                       {Collective::Barrier, "dissemination", 0}};

void expect_same(const SmallCase& c, const Network& n, double part, const SimulationOptions& options = {}) {
  const CollectiveDesc desc = call(c.collective, c.count);
  const Recipe recipe = c.name == kHierarchical ? hierarchy(n) : algorithm(c.collective, c.name);
  const Forecast all = simulate(recipe, desc, n, {.every_rank = true});
  const Forecast few = simulate(recipe, desc, n, options);
  const std::string where = std::string(c.name) + " of " + std::string(name_of(c.collective)) + " on " + n.name + ", " +
                            std::string(name_of(n.form)) + ": " + few.account;
  EXPECT_LT(few.simulated_ranks, n.ranks()) << where;
  EXPECT_EQ(all.simulated_ranks, n.ranks()) << where;
  EXPECT_THAT(few.seconds, IsWithin(part, all.seconds)) << where;
  for (const Forecast::Load& load : all.loads) {
    EXPECT_NEAR(part_of(few, load.tier), load.bytes, 1e-4 * load.bytes) << where << ", " << name_of(load.tier);
  }
}

TEST(Simulate, AgreesWithEveryRankSimulated_WhereRanksFindTheSameLinks) {
  for (const SmallCase& c : kAlike) {
    expect_same(c, one_switch(host_model("dgx-h100"), 4), 0.01);
    expect_same(c, one_switch(host_model("xeon-2s"), 8), 0.01);
    expect_same(c, rail_optimised(host_model("dgx-a100"), 4, 4), 0.01);
    expect_same(c, fat_tree(host_model("dgx-h100"), 8, 2, 2), 0.01);
  }
}

/// Each host begins the ring across with another chunk, which it has to sum up first.
TEST(Simulate, IsNear_WhereRanksDoTheSameInAnotherOrder) {
  for (const auto& [collective, elements] : {std::pair{Collective::AllReduce, std::uint64_t{4'096'000}},
                                             {Collective::AllReduce, std::uint64_t{64'000'000}},
                                             {Collective::ReduceScatter, std::uint64_t{100'000}}}) {
    for (const Network& n : {one_switch(host_model("dgx-h100"), 16), one_switch(host_model("xeon-2s"), 32),
                             rail_optimised(host_model("dgx-a100"), 16, 4)}) {
      expect_same({collective, "hierarchical", elements}, n, 0.02, {.exact_steps = 0});
    }
    const Network n = one_switch(host_model("dgx-h100"), 16);
    EXPECT_FALSE(simulate(hierarchy(n), call(collective, elements), n, {.exact_steps = 0}).exact);
    EXPECT_EQ(simulate(hierarchy(n), call(collective, elements), n).simulated_ranks, n.ranks());
  }
}

/// Programs of more ranks than are composed: of those that do the same one is composed.
TEST(Simulate, ComposesOneOfManyThatAreAlike) {
  const Network n = one_switch(host_model("dgx-h100"), 16);
  const CollectiveDesc desc = call(Collective::AllReduce, 4'096'000);
  const Forecast all = simulate(hierarchy(n, "recursive_doubling"), desc, n, {.every_rank = true});
  const Forecast few = simulate(hierarchy(n, "recursive_doubling"), desc, n, {.most_composed = n.ranks() - 1});
  EXPECT_LT(few.simulated_ranks, n.ranks());
  EXPECT_THAT(few.seconds, IsWithin(0.01, all.seconds));
}

/// Between hosts of one leaf, and from leaf to leaf, in the same step.
TEST(Simulate, IsNear_WhereOnlySomeCrossTheSpine) {
  for (const double oversubscription : {1, 4}) {
    const Network n = fat_tree(host_model("dgx-h100"), 16, 4, oversubscription);
    for (const SmallCase& c : {SmallCase{Collective::AllReduce, "ring", 4'096'000},
                               {Collective::AllToAll, "pairwise", 100'000},
                               {Collective::AllToAll, "direct", 10'000},
                               {Collective::AllReduce, "halving_doubling", 4'096'000}}) {
      expect_same(c, n, 0.05, {.exact_steps = 0});
    }
  }
}

TEST(Simulate, SimulatesEveryRank_WhereNoneAreAlike) {
  const Network n = one_switch(host_model("dgx-h100"), 4);
  const CollectiveDesc desc = call(Collective::AllReduce, 1000);
  for (const std::string_view name : {"binomial", "double_binary_tree"}) {
    EXPECT_EQ(simulate(algorithm(desc.collective, name), desc, n).simulated_ranks, n.ranks()) << name;
  }
  const CollectiveDesc rooted = call(Collective::Gather, 1000);
  EXPECT_EQ(simulate(algorithm(rooted.collective, "direct"), rooted, n).simulated_ranks, n.ranks());
}

/// On leaves of 4 hosts all 128 ranks have 96 others elsewhere; what they have for them goes through links that carry a
/// quarter of their NICs' rate, where without oversubscription each NIC carries what is for 120 on other hosts.
TEST(Simulate, SlowsAnAllToAllDown_ByWhatTheSpineLacks) {
  const CollectiveDesc desc = call(Collective::AllToAll, 1 << 20);
  const auto seconds = [&](double oversubscription) {
    return simulate(algorithm(desc.collective, "direct"), desc,
                    fat_tree(host_model("dgx-h100"), 16, 4, oversubscription))
        .seconds;
  };
  const double even = seconds(1);
  EXPECT_THAT(even, IsWithin(0.01, 120 * 4.0 * (1 << 20) / 50e9));
  EXPECT_THAT(seconds(4) / even, IsWithin(0.01, 4 * 96.0 / 120));
}

TEST(Simulate, KeepsEqualsOnTheirRail) {
  const Network n = rail_optimised(host_model("dgx-h100"), 8);
  const CollectiveDesc desc = call(Collective::AllReduce, 6'400'000);
  const Forecast rails = simulate(hierarchy(n), desc, n);
  EXPECT_GT(part_of(rails, Tier::NicOut), 0);
  EXPECT_EQ(part_of(rails, Tier::LeafUp), 0);
  EXPECT_GT(part_of(simulate(algorithm(desc.collective, "ring"), desc, n), Tier::LeafUp), 0);
}

std::size_t at(Tier tier) { return static_cast<std::size_t>(tier); }

/// A ring over hosts leaves each by the NIC of its last rank, and enters by that of its first.
TEST(Simulate, TellsWhatEachLinkCarries_OfRanksAlikeToo) {
  const Network n = one_switch(host_model("dgx-h100"), 4);
  const CollectiveDesc desc = call(Collective::AllGather, 8'000);
  const Recipe ring = algorithm(desc.collective, "ring");
  EXPECT_TRUE(simulate(ring, desc, n).link_bytes[at(Tier::NicOut)].empty()) << "not asked for";
  for (const bool every_rank : {true, false}) {
    const Forecast f = simulate(ring, desc, n, {.every_rank = every_rank, .link_bytes = true});
    EXPECT_EQ(f.simulated_ranks, every_rank ? 32 : 8);
    for (int nic = 0; nic < 32; ++nic) {
      const auto i = static_cast<std::size_t>(nic);
      EXPECT_DOUBLE_EQ(f.link_bytes[at(Tier::NicOut)][i], nic % 8 == 7 ? 31 * 32'000 : 0) << nic;
      EXPECT_DOUBLE_EQ(f.link_bytes[at(Tier::NicIn)][i], nic % 8 == 0 ? 31 * 32'000 : 0) << nic;
      EXPECT_DOUBLE_EQ(f.link_bytes[at(Tier::RankOut)][i], nic % 8 == 7 ? 0 : 31 * 32'000) << nic;
    }
    EXPECT_TRUE(f.link_bytes[at(Tier::Memory)].empty()) << "a switch, which never limits";
    const auto out = std::ranges::find(f.loads, Tier::NicOut, &Forecast::Load::tier);
    ASSERT_NE(out, f.loads.end());
    EXPECT_EQ(out->used, 4);
  }
}

TEST(Simulate, GivesATimeLine_ThatEndsWhenTheCallDoes) {
  const Network n = one_switch(host_model("dgx-h100"), 2);
  const CollectiveDesc desc = call(Collective::AllReduce, 64'000);
  const Recipe ring = algorithm(desc.collective, "ring");
  EXPECT_TRUE(simulate(ring, desc, n, {.every_rank = true}).time_line.empty());
  const Forecast f = simulate(ring, desc, n, {.every_rank = true, .time_line = true});
  std::size_t steps = 0;
  for (int r = 0; r < n.ranks(); ++r) steps += ring.build(desc, r, n.ranks(), false).steps.size();
  ASSERT_EQ(f.time_line.size(), steps * f.segments);
  EXPECT_EQ(f.time_line.back().end, f.seconds);
  for (const Forecast::Span& span : f.time_line) EXPECT_LE(span.start, span.end);
}

/// The simulator executes at least four times as many segments as are in flight at a time, and extrapolates the rest.
/// The more segments it executes, the smaller is the error.
TEST(Simulate, ExpectsLaterSegments_AtThePaceOfThoseBefore) {
  struct Row {
    std::string_view name;
    std::uint64_t most_executed;
    double part;
  };
  const Network n = one_switch(host_model("dgx-h100"), 2);
  const CollectiveDesc desc = call(Collective::AllReduce, 256 << 20);
  for (const Row& row : {Row{"ring", 1, 0.01}, Row{"ring", 50'000, 0.01}, Row{"double_binary_tree", 1, 0.1},
                         Row{"double_binary_tree", 20'000, 0.02}}) {
    const Forecast all = simulate(algorithm(desc.collective, row.name), desc, n);
    const Forecast some = simulate(algorithm(desc.collective, row.name), desc, n, {.most_executed = row.most_executed});
    EXPECT_EQ(all.simulated_segments, all.segments) << row.name;
    EXPECT_LT(some.simulated_segments, all.segments) << row.name;
    EXPECT_FALSE(some.exact);
    EXPECT_THAT(some.seconds, IsWithin(row.part, all.seconds)) << row.name << ", " << some.account;
    EXPECT_THAT(part_of(some, Tier::NicOut), IsWithin(1e-6, part_of(all, Tier::NicOut))) << row.name;
  }
}

TEST(Simulate, RefusesWhatItCannotRun) {
  const Network n = one_switch(host_model("dgx-h100"), 2);
  const auto refusal = [&](Collective collective, std::string_view name, const SimulationOptions& options) {
    try {
      simulate(algorithm(collective, name), call(collective, 1000), n, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(Collective::AllToAllV, "pairwise", {}), HasSubstr("counts are the same on all ranks"));
  EXPECT_THAT(refusal(Collective::AllReduce, "binomial", {.most_steps = 10}), HasSubstr("too few ranks behave alike"));
  EXPECT_EQ(refusal(Collective::AllReduce, "binomial", {}), "");
  // 16 programs of 31 steps and 32 chunks, which count as four more.
  const SimulationOptions held{.every_rank = true, .most_steps = 16 * 33};
  EXPECT_EQ(refusal(Collective::AllToAll, "direct", {.every_rank = true, .most_steps = 16 * 35}), "");
  EXPECT_THAT(refusal(Collective::AllToAll, "direct", held), HasSubstr("take the memory of more than 528 steps"));
}

}  // namespace
}  // namespace sinew
