#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/simulator/network_costs.hpp>
#include <sinew/collectives/simulator/simulate.hpp>
#include <sinew/topology/catalog/named_networks.hpp>

#include "flat_network.hpp"

namespace sinew::test {
namespace {

/// Networks of two ranks, on one host or on two.
std::vector<Network> pairs_of_ranks() {
  std::vector<Network> all{flat(2)};
  for (const HostModel& host : host_models()) {
    HostModel one = host, two = host;
    one.ranks = one.nics = 1;
    two.ranks = 2;
    all.push_back(one_switch(one, 2));
    all.push_back(one_switch(two, 1));
  }
  return all;
}

/// The cost model and the simulator must give a single message the same time.
TEST(NetworkCosts, AreWhatTheSimulatorTakesForOneMessage) {
  const Recipe message = *find_algorithm(Collective::Broadcast, "direct");
  for (const Network& network : pairs_of_ranks()) {
    const NetworkCosts costs(network);
    for (const std::uint64_t count : {1u, 1000u, 100'000u}) {
      const CollectiveDesc desc{.collective = Collective::Broadcast, .dtype = DType::F32, .count = count};
      const double bytes = 4.0 * static_cast<double>(count);
      const Seconds simulated = simulate(message, desc, network).seconds;
      EXPECT_THAT(simulated, IsWithin(1e-9, costs.link(0, 1).alone.seconds(bytes))) << network.name << " " << count;
      EXPECT_THAT(simulated, IsWithin(1e-9, costs.transfer({.to = 1, .bytes = bytes}).seconds(bytes)))
          << network.name << " " << count;
    }
  }
}

TEST(NetworkCosts, NameTheResourcesOfARoute) {
  const Network network = fat_tree(host_model("dgx-h100"), 4, 2, 2);
  const NetworkCosts costs(network);
  const auto count = [&](int to, Resource of) {
    int found = 0;
    for (const Passage& p : costs.link(0, to).passes) found += p.resource == of;
    return found;
  };
  EXPECT_EQ(count(1, Resource::Port), 2) << "out of a rank and into another, by NVSwitch";
  EXPECT_EQ(count(1, Resource::Nic), 0);
  EXPECT_EQ(count(8, Resource::Nic), 2) << "a host of the same leaf";
  EXPECT_EQ(count(8, Resource::Leaf), 0);
  EXPECT_EQ(count(16, Resource::Leaf), 2) << "up from a leaf and down to another";
  EXPECT_TRUE(costs.link(0, 8).leaves_host);
  EXPECT_FALSE(costs.link(0, 1).leaves_host);
  EXPECT_EQ(costs.source(), CostSource::Catalog);
}

}  // namespace
}  // namespace sinew::test
