#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/virtual_cluster/tier_load.hpp>
#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/core/error.hpp>
#include <support/sanitized.hpp>

#include "support/collective_case.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"

namespace sinew::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const VirtualWorld> virtual_world(const std::string& text) {
  return make_virtual_world(virtual_cluster_from(text));
}

WorldOptions patient() {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  return options;
}

/// What one call put on the way.
struct Counted {
  Plan plan;
  std::vector<std::uint64_t> sent;  ///< from each rank to each
};

/// One after the other in one World.
std::vector<Counted> run_on(const std::shared_ptr<const VirtualWorld>& on, const std::vector<CollectiveCase>& cases) {
  const auto ranks = static_cast<std::size_t>(on->on.network.ranks());
  std::vector<Counted> found(cases.size());
  for (Counted& counted : found) counted.sent.resize(ranks * ranks);
  run_virtual_ranks(on, patient(), [&](World& world) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const CollectiveCase& c = cases[i];
      const CollectiveDesc desc{.collective = c.collective, .dtype = c.dtype, .op = c.op, .count = c.count};
      const Plan plan = world.communicator().plan(desc);
      const std::vector<std::uint64_t> before = world.sent_bytes();
      require(run_case(world.communicator(), c, 1) == 0, "every element is right: " + c.to_string());
      const std::vector<std::uint64_t> after = world.sent_bytes();
      const auto row = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(world.rank()) * ranks);
      std::ranges::transform(after, before, found[i].sent.begin() + row, std::minus<>());
      if (world.rank() == 0) found[i].plan = plan;
    }
  });
  return found;
}

std::string text_of(const std::vector<TierLoad>& loads) {
  std::string text;
  for (const TierLoad& l : loads) {
    text += std::string(name_of(l.tier)) + ": " + std::to_string(l.bytes) + " by " + std::to_string(l.used) +
            ", most " + std::to_string(l.busiest_bytes) + " by " + std::to_string(l.busiest.index) + "\n";
  }
  return text;
}

const TierLoad& tier(const std::vector<TierLoad>& loads, Tier which) {
  return *std::ranges::find(loads, which, &TierLoad::tier);
}

/// Data right, and every link as the simulator says: of one element, of a prime number of them, and of many.
void expect_as_simulated(const std::string& cluster) {
  const auto on = virtual_world(cluster);
  std::vector<CollectiveCase> cases;
  for (const Collective collective :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
    const std::uint64_t many = collective == Collective::AllReduce ? 100'000 : 3000;  // of others, for each rank
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{1009}, many})
      cases.push_back({.collective = collective, .count = count});
  }
  const std::vector<Counted> found = run_on(on, cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto loads = tier_loads(on->on.network, found[i].sent);
    const auto simulated = simulated_loads(found[i].plan, on->on.network);
    ASSERT_TRUE(simulated.has_value());
    EXPECT_EQ(loads, *simulated) << cluster << ", " << cases[i].to_string() << ", " << found[i].plan.chosen().algorithm
                                 << "\ncounted\n"
                                 << text_of(loads) << "simulated\n"
                                 << text_of(*simulated);
    EXPECT_GT(tier(loads, Tier::NicOut).bytes, 0U);
  }
}

TEST(VirtualWorld, PutsOnLinksWhatTheSimulatorSays_OfEightDgx) {
  expect_as_simulated(test::kSanitized ? "dgx-h100x2" : "dgx-h100x8");  // 64 threads take a sanitizer minutes
}
TEST(VirtualWorld, PutsOnLinksWhatTheSimulatorSays_OfUnequalHosts) { expect_as_simulated("xeon-2s:3+5"); }
TEST(VirtualWorld, PutsOnLinksWhatTheSimulatorSays_OfThreeLevels) { expect_as_simulated("epyc-2s:4+4+4"); }

/// Of all_to_all each block for another host crosses once, by its rank's NIC or by that of its taker's equal.
TEST(VirtualWorld, SendsEachBlockAcrossHostsOnce) {
  const auto on = virtual_world("dgx-h100x4");
  const auto loads =
      tier_loads(on->on.network, run_on(on, {{.collective = Collective::AllToAll, .count = 3000}})[0].sent);
  const TierLoad& nics = tier(loads, Tier::NicOut);
  EXPECT_EQ(nics.bytes, 32U * 24 * 3000 * 4);
  EXPECT_EQ(nics.used, 32);
  EXPECT_EQ(nics.busiest_bytes, 24U * 3000 * 4);
}

TEST(VirtualWorld, NoticesARouteThatIsWrong) {
  const auto on = virtual_world("dgx-h100x2");
  const Counted counted = run_on(on, {{.count = 5000}})[0];
  const auto simulated = simulated_loads(counted.plan, on->on.network);
  EXPECT_EQ(tier_loads(on->on.network, counted.sent), simulated);
  Network by_one_nic = on->on.network;
  by_one_nic.nic_by_place.assign(8, 0);
  EXPECT_NE(tier_loads(by_one_nic, counted.sent), simulated);
  Counted too_much = counted;
  too_much.sent[9] += 4;
  EXPECT_NE(tier_loads(on->on.network, too_much.sent), simulated);
}

TEST(VirtualWorld, IsTheClusterToWhoeverAsks) {
  const auto on = virtual_world("dgx-h100x8");
  run_virtual_ranks(on, patient(), [&](World& world) {
    require(world.size() == 64, "as many ranks as GPUs");
    require(&world.cluster() == &on->cluster, "its cluster is that of all ranks");
    if (world.rank() != 5) return;
    const std::string facts = world.facts();
    // NVLink: 0.5 us in and out; across: 0.4 us to the NIC, 0.75 us to the switch, and the same again.
    EXPECT_THAT(facts, HasSubstr("64 ranks on 8 host(s), costs: virtual cluster: dgx-h100x8\n"));
    EXPECT_THAT(facts, HasSubstr("within host 0: inproc: 1.00 us, 450.00 GB/s\n"));
    EXPECT_THAT(facts, HasSubstr("hosts 6 and 7: inproc: 2.30 us, 50.00 GB/s\n"));
  });
}

TEST(VirtualWorld, TakesTheHierarchy_WhereNvlinkIsFasterThanNics) {
  const auto on = virtual_world("dgx-h100x8");
  run_virtual_ranks(on, patient(), [&](World& world) {
    if (world.rank() != 0) return;
    const Plan plan = world.communicator().plan(
        {.collective = Collective::AllReduce, .dtype = DType::F32, .op = ReduceOp::Sum, .count = 16 << 20});
    EXPECT_EQ(plan.chosen().algorithm, "hierarchical") << plan.explain();
    EXPECT_THAT(plan.chosen().method, HasSubstr("across 8 of them"));
    const auto loads = simulated_loads(plan, on->on.network);
    ASSERT_TRUE(loads.has_value());
    // Each NIC carries its stripe: an eighth of 64 MiB, by an all-reduce among 8.
    EXPECT_EQ(tier(*loads, Tier::NicOut).busiest_bytes, 2U * 7 * (64u << 20) / 8 / 8);
    EXPECT_EQ(tier(*loads, Tier::NicOut).used, 64);
    // Twice 64 MiB over a 50 GB/s NIC each would take 2.7 ms; eight NICs at a time a part of that.
    EXPECT_LT(plan.chosen().predicted, 1.5e-3);
  });
}

TEST(VirtualWorld, SaysWhatDoesNotFit) {
  EXPECT_EQ(complaint([] { virtual_world("xeon-2s:65+64"); }),
            "'xeon-2s:65+64' has 129 ranks: expected 128 at most, as they are threads of one process");
  WorldOptions options = patient();
  options.virtual_world = virtual_world("xeon-2sx2");
  EXPECT_THAT(complaint([&] { World::create(exchange_alone(), options); }),
              HasSubstr("virtual cluster 'xeon-2sx2' has 4 ranks, and this World 1"));
  WorldOptions shm = patient();
  shm.config.transports = {"shm"};
  EXPECT_THAT(complaint([&] { run_virtual_ranks(virtual_world("xeon-2sx2"), shm, [](World&) {}); }),
              HasSubstr("transports shm: expected none but inproc on a virtual cluster"));
}

TEST(VirtualWorld, TellsWhatARankThrew_AndNotThatOthersLostIt) {
  EXPECT_EQ(complaint([] {
              run_virtual_ranks(virtual_world("xeon-2sx2"), patient(), [](World& world) {
                if (world.rank() == 2) throw Error(Code::InvalidArgument, "planted");
                world.communicator().barrier().get();
              });
            }),
            "planted");
}

TEST(VirtualWorld, CountsNothing_WhereRanksAreWhereTheyAre) {
  on_threads(2, only("inproc"), [](World& world) { require(world.sent_bytes().empty(), "nobody asked for it"); });
}

}  // namespace
}  // namespace sinew::test
