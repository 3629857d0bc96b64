#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/kinds.hpp>
#include <sinew/collectives/simulator/simulate.hpp>

#include "flat_network.hpp"

namespace sinew {
namespace {

/// A network in which memory, NICs and leaf switches all limit rates.
Network crowded(NetworkForm form, int hosts, int ranks_per_host, int nics_per_host) {
  Network n = test::flat(hosts);
  n.form = form;
  n.ranks_per_host = ranks_per_host;
  n.nics_per_host = nics_per_host;
  n.hosts_per_leaf = form == NetworkForm::FatTree ? 2 : 1;
  n.oversubscription = 2;
  n.reduce_bytes_per_s = 5e9;
  const auto set = [&](Tier tier, double rate, double latency) {
    n.rates[static_cast<std::size_t>(tier)] = {rate, latency};
  };
  set(Tier::Memory, 1.5e9, 1e-6);
  set(Tier::RankOut, 2e9, 1e-7);
  set(Tier::RankIn, 2e9, 1e-7);
  set(Tier::PciOut, 0.8e9, 0);
  set(Tier::PciIn, 0.8e9, 0);
  set(Tier::LeafUp, 1.1e9, 2e-6);
  set(Tier::LeafDown, 1.1e9, 2e-6);
  return n;
}

std::vector<Network> crowded_networks() {
  return {test::flat(12),
          test::flat(23),
          crowded(NetworkForm::OneSwitch, 7, 4, 4),
          crowded(NetworkForm::OneSwitch, 6, 4, 2),
          crowded(NetworkForm::RailOptimised, 5, 4, 4),
          crowded(NetworkForm::RailOptimised, 9, 2, 2),
          crowded(NetworkForm::FatTree, 10, 2, 1),
          crowded(NetworkForm::FatTree, 12, 3, 3)};
}

TEST(Kinds, HavePartnersOfOneKind_AndMoveAsOften) {
  const CollectiveDesc desc{.collective = Collective::AllReduce, .count = 1000};
  for (const Network& n : crowded_networks()) {
    SCOPED_TRACE(n.ranks());
    const Recipe recipe = *find_algorithm(desc.collective, "recursive_doubling");
    std::vector<Program> programs;
    for (int r = 0; r < n.ranks(); ++r) programs.push_back(recipe.build(desc, r, n.ranks(), false));
    const auto found = find_kinds([&](int r) -> const Program& { return programs[static_cast<std::size_t>(r)]; }, desc,
                                  n, programs.size());
    ASSERT_TRUE(found);
    int ranks = 0;
    for (const int size : found->size) ranks += size;
    EXPECT_EQ(ranks, n.ranks());
    for (const Program& p : programs) {
      const auto kind = static_cast<std::size_t>(found->of_rank[static_cast<std::size_t>(p.rank)]);
      ASSERT_EQ(p.steps.size(), found->partners[kind].size());
      for (std::size_t s = 0; s < p.steps.size(); ++s) {
        if (p.steps[s].op != Op::Send && p.steps[s].op != Op::Recv) continue;
        const Kinds::Partner partner = found->partners[kind][s];
        EXPECT_EQ(found->of_rank[static_cast<std::size_t>(p.steps[s].peer)], static_cast<int>(partner.kind));
        EXPECT_EQ(found->partners[partner.kind][partner.step].kind, kind);
        EXPECT_EQ(found->partners[partner.kind][partner.step].step, s);
      }
    }
  }
}

TEST(Kinds, AreNotMoreThanAskedFor) {
  const CollectiveDesc desc{.collective = Collective::AllReduce, .count = 1000};
  const Network n = test::flat(23);
  const Recipe recipe = *find_algorithm(desc.collective, "binomial");
  std::vector<Program> programs;
  for (int r = 0; r < n.ranks(); ++r) programs.push_back(recipe.build(desc, r, n.ranks(), false));
  const auto program = [&](int r) -> const Program& { return programs[static_cast<std::size_t>(r)]; };
  EXPECT_FALSE(find_kinds(program, desc, n, 5)) << "each rank of a binomial tree is unlike all others";
  ASSERT_TRUE(find_kinds(program, desc, n, 23));
  EXPECT_EQ(find_kinds(program, desc, n, 23)->first.size(), 23U);
}

/// The time, and the bytes of every link, are those of a run of all ranks.
TEST(Kinds, MoveAsAllRanksDo) {
  int fewer = 0;
  for (const Network& n : crowded_networks()) {
    for (const char* name : {"recursive_doubling", "halving_doubling", "double_binary_tree", "binomial", "bruck"}) {
      const Algorithm* algorithm = find_algorithm(Collective::AllReduce, name);
      ASSERT_NE(algorithm, nullptr) << name;
      for (const std::uint64_t count : {3U, 1000U, 200'000U}) {
        SCOPED_TRACE(std::string(name) + " of " + std::to_string(count) + " on " + std::to_string(n.hosts) + " hosts");
        const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = count};
        if (!algorithm->supports(desc, n.ranks()).ok) continue;
        const Forecast all = simulate(*algorithm, desc, n, {.every_rank = true, .link_bytes = true});
        const Forecast some =
            simulate(*algorithm, desc, n, {.link_bytes = true, .exact_steps = 0, .fewest_for_kinds = 2});
        if (!some.exact) continue;  // a shift was found that makes ranks alike approximately
        EXPECT_NEAR(some.seconds, all.seconds, 1e-9 * all.seconds);
        if (some.simulated_ranks < all.simulated_ranks) ++fewer;
        for (std::size_t t = 0; t < kTiers; ++t) {
          ASSERT_EQ(some.link_bytes[t].size(), all.link_bytes[t].size());
          for (std::size_t l = 0; l < all.link_bytes[t].size(); ++l)
            EXPECT_NEAR(some.link_bytes[t][l], all.link_bytes[t][l], 1e-6 * all.link_bytes[t][l]) << t << " " << l;
        }
      }
    }
  }
  EXPECT_GT(fewer, 10) << "this tests next to nothing";
}

}  // namespace
}  // namespace sinew
