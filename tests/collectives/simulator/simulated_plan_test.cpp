// Plans of Worlds on virtual clusters, simulated on the links of a network without running them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <support/sanitized.hpp>

#include "flat_network.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using ::testing::HasSubstr;

/// Eight hosts of one rank.
constexpr const char* kEight = "xeon-2s:1+1+1+1+1+1+1+1";

CollectiveDesc call(Collective collective, std::uint64_t count) {
  return {.collective = collective, .dtype = DType::F32, .op = ReduceOp::Sum, .count = count};
}

/// What a job there would choose, or `algorithm`, if one is named.
Plan planned(const std::string& cluster, const CollectiveDesc& desc, const std::string& algorithm = {}) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  if (!algorithm.empty()) options.config.tune = {std::string(name_of(desc.collective)) + ":0-:" + algorithm};
  Plan plan;
  run_virtual_ranks(make_virtual_world(virtual_cluster_from(cluster)), options, [&](World& world) {
    if (world.rank() == 0) plan = world.communicator().plan(desc);
  });
  return plan;
}

/// What the executor of rank 0 would be given.
std::unique_ptr<Executable> executable(const Plan& plan) {
  return Executable::make(plan.call(), plan.recipe()->build(plan.call(), 0, plan.ranks(), false), plan.segmentation(),
                          [](int) -> Endpoint* { return nullptr; });
}

double busiest(const Forecast& forecast, Tier tier) {
  return std::ranges::find(forecast.loads, tier, &Forecast::Load::tier)->busiest_bytes;
}

TEST(SimulatedPlan, MeetsTheClosedForms_OfRingHalvingAndTree) {
  const Network n = flat(8);
  const CollectiveDesc sum = call(Collective::AllReduce, 40'000), to_root = call(Collective::Reduce, 10'000);
  const double seconds = 160'000 / kRate;
  const Forecast ring = simulate(planned(kEight, sum, "ring"), n);
  EXPECT_THAT(ring.seconds, IsWithin(0.01, 14 * (kLatency + seconds / 8)));
  const Forecast halving = simulate(planned(kEight, sum, "halving_doubling"), n);
  EXPECT_THAT(halving.seconds, IsWithin(0.01, 6 * kLatency + 2 * seconds * 7 / 8));
  const Forecast tree = simulate(planned(kEight, to_root, "binomial"), n);
  EXPECT_THAT(tree.seconds, IsWithin(0.01, 3 * (kLatency + 40'000 / kRate)));
  for (const Forecast& f : {ring, halving, tree}) {
    EXPECT_EQ(f.segments, 1U);
    EXPECT_EQ(f.ranks, 8);
  }
}

/// In pieces, of which so many share a link at a time, all bytes take as long as in one; only latencies add up.
TEST(SimulatedPlan, MeetsTheClosedForm_InItsSegmentsAndDepth) {
  const Network n = flat(8);
  const Plan plan = planned(kEight, call(Collective::AllGather, 2 << 20), "ring");
  const Forecast f = simulate(plan, n);
  EXPECT_EQ(f.segments, 16U);  // 8 MiB of each rank in pieces of 512 KiB
  EXPECT_EQ(f.depth, 8U);      // as between hosts
  EXPECT_THAT(f.seconds, IsWithin(0.01, 7 * (16 / 8 * kLatency + (8 << 20) / kRate)));
  EXPECT_EQ(simulate(*plan.recipe(), plan.call(), n).depth, 4U);  // without the plan's cutting
  const Plan ring = planned(kEight, call(Collective::AllReduce, 16 << 20), "ring");
  EXPECT_THAT(simulate(ring, n).seconds, IsWithin(0.01, 14.0 / 8 * (64 << 20) / kRate));
}

TEST(SimulatedPlan, IsCutAsTheExecutorCutsIt) {
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
    for (const std::uint64_t count : {100ULL, 100'000ULL, 5'000'000ULL}) {
      const Plan plan = planned("xeon-2sx4", call(collective, count));
      const auto code = executable(plan);
      const Forecast f = simulate(plan, flat(8));
      EXPECT_EQ(f.segments, code->segments) << plan.explain();
      EXPECT_EQ(f.depth, code->depth) << plan.explain();
    }
  }
}

/// Each NIC carries its stripe: an eighth, by an all-reduce among as many as there are hosts.
TEST(SimulatedPlan, IsThatOfAVirtualCluster) {
  const int hosts = test::kSanitized ? 2 : 8;  // 64 threads take a sanitizer minutes
  const std::string cluster = "dgx-h100x" + std::to_string(hosts);
  const Network network = virtual_cluster_from(cluster).network;
  const Plan plan = planned(cluster, call(Collective::AllReduce, 16 << 20));
  ASSERT_EQ(plan.chosen().algorithm, "hierarchical") << plan.explain();
  const Forecast f = simulate(plan, network);
  EXPECT_EQ(f.ranks, hosts * 8);
  EXPECT_EQ(f.segments, executable(plan)->segments);
  const double stripe = (64 << 20) / 8.0, by_nic = 2 * stripe * (hosts - 1) / hosts;
  EXPECT_THAT(busiest(f, Tier::NicOut), IsWithin(1e-6, by_nic));
  EXPECT_GT(f.seconds, by_nic / 50e9);
  EXPECT_LT(f.seconds, 3 * plan.chosen().predicted);  // by curves of links, each alone
  EXPECT_GT(f.seconds, plan.chosen().predicted / 3);
}

TEST(SimulatedPlan, TakesLonger_WhereTheNetworkIsSlower) {
  const Plan plan = planned("xeon-2sx4", call(Collective::AllReduce, 1 << 20));
  Network slow = flat(8);
  for (LinkRate& rate : slow.rates) rate.bytes_per_s /= 10;
  EXPECT_GT(simulate(plan, slow).seconds, 5 * simulate(plan, flat(8)).seconds);
}

TEST(SimulatedPlan, SaysWhyAnOffloadHasNone) {
  WorldOptions options = only("shm");
  options.config.tune = {"all_reduce:0-:shm@shm"};
  in_processes(2, options, [](World& world) {
    const Plan plan = world.communicator().plan(call(Collective::AllReduce, 16));
    require(plan.recipe() == nullptr, "shared memory takes it: " + plan.explain());
    const std::string why = complaint([&] { simulate(plan, flat(2)); });
    require(why.find("on 2 ranks: the plan takes 'shm' over shm, whose steps nobody knows") != std::string::npos, why);
  });
}

TEST(SimulatedPlan, SaysWhatElseItCannotCost) {
  EXPECT_THAT(complaint([] { simulate(Plan(), flat(2)); }), HasSubstr("this plan is empty"));
  const Plan plan = planned("xeon-2sx2", call(Collective::AllReduce, 100));
  EXPECT_THAT(complaint([&] { simulate(plan, flat(8)); }), HasSubstr("the plan is for 4 ranks, and flat has 8"));
  EXPECT_EQ(complaint([&] { simulate(plan, flat(4)); }), "no complaint");
  EXPECT_THAT(complaint([] { simulate(planned("xeon-2sx2", call(Collective::Send, 100)), flat(4)); }),
              HasSubstr("this plan is of messages"));
  EXPECT_THAT(complaint([] { simulate(planned("xeon-2sx2", call(Collective::AllToAllV, 0)), flat(4)); }),
              HasSubstr("counts are the same on all ranks"));
}

}  // namespace
}  // namespace sinew::test
