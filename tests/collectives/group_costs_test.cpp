#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/selection/group_costs.hpp>

namespace sinew::test {
namespace {

/// Ranks 0 and 1 are on one host, rank 2 is on another. There are two transports inside a host, and one between hosts.
Facts two_hosts() {
  Facts facts;
  facts.ranks = {{0, 0}, {0, 1}, {1, 2}};
  facts.cores_of_host = {2, 1};
  facts.transports = {"shm", "tcp"};
  const auto reach = [](Seconds latency) {
    return Reach{true, {}, {.latency_s = latency, .knots = {{1000, 1e9}}}, {}};
  };
  facts.links[{0, 0, false}] = {{"shm", reach(1e-6), CostSource::Measured}, {"tcp", reach(9e-6)}};
  facts.links[{0, 1, false}] = {{"tcp", reach(30e-6)}};
  return facts;
}

TEST(GroupCosts, AreThoseOfTheTransportThatTheSetHasForTheTwo) {
  const Facts facts = two_hosts();
  const TransportSet set{.label = "shm+tcp", .by_class = {{{0, 0, false}, "shm"}, {{0, 1, false}, "tcp"}}};
  const std::vector<int> places{2, 0, 1};  // the group numbers its ranks in another order
  const GroupCosts costs(facts, places, set);
  EXPECT_EQ(costs.link(1, 2).alone.latency_s, 1e-6);
  EXPECT_FALSE(costs.link(1, 2).leaves_host);
  EXPECT_EQ(costs.link(1, 2).source, CostSource::Measured);
  EXPECT_EQ(costs.link(0, 1).alone.latency_s, 30e-6);
  EXPECT_TRUE(costs.link(0, 1).leaves_host);
  EXPECT_EQ(costs.link(0, 1).source, CostSource::Default);
}

TEST(GroupCosts, NameTheLeastTrustedSource) {
  Facts facts = two_hosts();
  const TransportSet set{.label = "shm", .by_class = {{{0, 0, false}, "shm"}}};
  const std::vector<int> places{0, 1};
  EXPECT_EQ(GroupCosts(facts, places, set).source(), CostSource::Default) << "the rates of copies and sums";
  facts.rates_source = CostSource::Measured;
  EXPECT_EQ(GroupCosts(facts, places, set).source(), CostSource::Measured);
  EXPECT_EQ(GroupCosts(facts, places, set).rate(LocalStep::Copy, 0, DType::F32).source, CostSource::Measured);
}

}  // namespace
}  // namespace sinew::test
