#include <sys/resource.h>

#include <chrono>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/topology/catalog/named_networks.hpp>

namespace sinew {
namespace {

constexpr double kMostSeconds = 30;
constexpr long kMostKilobytes = 4L << 20;

/// Of one call on 12,500 x 8 ranks: the forecast, made in time and memory.
Forecast forecast(Collective collective, std::string_view name, const Network& network) {
  CollectiveDesc desc{.collective = collective, .dtype = DType::F32, .count = 1};
  desc.count = (std::uint64_t{1} << 30) / desc.bytes(network.ranks());
  const auto start = std::chrono::steady_clock::now();
  const Recipe recipe = name == kHierarchical ? Recipe(HierarchicalAlgorithm{levels_of(network), "direct", "ring"})
                                              : Recipe(*find_algorithm(collective, name));
  const Forecast f = simulate(recipe, desc, network);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::string where = std::string(name) + " of " + std::string(name_of(collective)) + ": " + f.account;
  EXPECT_LT(took.count(), kMostSeconds) << where;
  EXPECT_LT(usage.ru_maxrss, kMostKilobytes) << where;
  EXPECT_EQ(f.ranks, 100'000) << where;
  // No link carries more than its rate.
  for (const Forecast::Load& load : f.loads)
    EXPECT_LE(load.utilisation, 1 + 1e-9) << where << ", " << name_of(load.tier);
  EXPECT_GT(f.seconds, 0) << where;
  return f;
}

TEST(SimulateAtScale, CostsAHundredThousandRanks_InHalfAMinuteAndFourGib) {
  for (const Network& n : {one_switch(host_model("dgx-h100"), 12'500), fat_tree(host_model("dgx-h100"), 12'500, 32, 2),
                           rail_optimised(host_model("dgx-h100"), 12'500)}) {
    for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
      EXPECT_LT(forecast(c, kHierarchical, n).seconds, forecast(c, "ring", n).seconds) << name_of(c);
    }
    forecast(Collective::AllReduce, "binomial", n);
    forecast(Collective::AllReduce, "double_binary_tree", n);
    forecast(Collective::AllToAll, "pairwise", n);
    forecast(Collective::AllToAll, "direct", n);
  }
}

}  // namespace
}  // namespace sinew
