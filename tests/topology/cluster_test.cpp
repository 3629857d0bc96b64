#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>
#include <sinew/topology/cluster/rank_parts.hpp>
#include <sinew/topology/discover/host_identity.hpp>
#include <sinew/topology/format/json/json.hpp>

#include "sample_machine.hpp"

namespace sinew {
namespace {

using test::sample_machine;
using Groups = std::vector<std::vector<int>>;

/// What machine_bytes() makes, of a machine that is not here.
Bytes published(const Machine& machine) {
  Bytes bytes{std::byte{'M'}};
  for (const char c : to_json(machine, -1)) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

RankPlace place(std::string host, int node, std::vector<int> cpus, double quota = 0) {
  return {std::move(host), node, std::move(cpus), quota};
}

/// Leaders publish, the others publish nothing.
Cluster merged(const std::vector<RankPlace>& places) {
  std::vector<Bytes> machines(places.size());
  for (const int leader : host_leaders(places)) {
    machines[static_cast<std::size_t>(leader)] =
        published(sample_machine(places[static_cast<std::size_t>(leader)].host));
  }
  return merge_cluster(places, machines);
}

TEST(RankPlace, ComesBackEqual) {
  Config config;
  config.interface = "eth7";
  const RankPlace here = place_of_this_process(config, "00000000:3B:00.0");
  EXPECT_EQ(here.gpu, "0000:3b:00.0");
  EXPECT_EQ(here.interfaces, "eth7");
  EXPECT_EQ(here.host, host_identity({}));
  EXPECT_FALSE(here.cpus.empty());
  EXPECT_EQ(rank_place_from_bytes(to_bytes(here)), here);
  RankPlace other = place("a \"host\"", 3, {0, 1, 2, 9}, 1.5);
  other.gpu = "0000:3b:00.0";
  other.interfaces = "eth0,eth1";
  EXPECT_EQ(rank_place_from_bytes(to_bytes(other)), other);
}

TEST(RankPlace, SaysWhatIsWrong_WhenBytesAreBroken) {
  const std::string text = R"({"host":"a","numa_node":0,"cpus":5,"quota_cores":0})";
  Bytes bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  try {
    (void)rank_place_from_bytes(bytes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cpus: expected a string, found 5");
  }
}

TEST(Cluster, GroupsUnevenHostsInOrderOfTheirFirstRanks) {
  const Cluster c =
      merged({place("b", 0, {0}), place("a", 1, {1}), place("b", 1, {1}), place("b", 0, {0}), place("c", -1, {})});
  ASSERT_EQ(c.hosts.size(), 3u);
  EXPECT_EQ(c.hosts[0].identity, "b");
  EXPECT_EQ(c.hosts[1].identity, "a");
  EXPECT_EQ(c.groups_by_host(), (Groups{{0, 2, 3}, {1}, {4}}));
  EXPECT_EQ(c.ranks_on_host(3), (std::vector{0, 2, 3}));
  EXPECT_EQ(c.ranks_on_host(4), (std::vector{4}));
  EXPECT_EQ(c.ranks[2].numa_node, 1);
}

TEST(Cluster, FindsTheCacheAndTheSocketOfEachRank) {
  const Machine machine = sample_machine("a");
  const auto& cores = machine.cores;
  const Cluster c = merged({place("a", 0, cores[0].cpus), place("a", 1, cores[3].cpus),
                            place("a", -1, {cores[0].cpus.front(), cores[3].cpus.front()}), place("a", -1, {})});
  EXPECT_EQ(c.ranks[0].package, cores[0].package);
  EXPECT_EQ(c.ranks[1].package, cores[3].package);
  EXPECT_NE(c.ranks[0].package, c.ranks[1].package);
  EXPECT_EQ(c.ranks[2].package, -1);  // it may run on both sockets
  EXPECT_EQ(c.ranks[3].package, -1);
  const auto holds = [&](int cache, int core) {
    const std::vector<int>& all = machine.caches.at(static_cast<std::size_t>(cache)).cores;
    return std::ranges::find(all, core) != all.end();
  };
  EXPECT_TRUE(holds(c.ranks[0].cache, 0));
  EXPECT_EQ(c.ranks[2].cache, -1);
  const std::vector<int> ranks{1, 0, 2};
  const std::vector<PartsOfRanks> parts = parts_of_ranks(c, ranks);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].kind, HostPart::Cache);
  EXPECT_EQ(parts[0].numbers, (std::vector{c.ranks[1].cache, c.ranks[0].cache, -1}));
  EXPECT_EQ(parts[1].numbers, (std::vector{1, 0, -1}));
  EXPECT_EQ(parts[2].numbers, (std::vector{cores[3].package, cores[0].package, -1}));
}

TEST(Cluster, CountsTheCoresOfAllRanksOfAHost) {
  const Cluster bound =
      merged({place("a", 0, {0}), place("a", 0, {1}), place("b", 0, {0, 1, 2, 3}), place("a", 0, {1})});
  EXPECT_EQ(bound.ranks[0].usable_cores, 2);
  EXPECT_EQ(bound.ranks[3].usable_cores, 2);
  EXPECT_EQ(bound.ranks[2].usable_cores, 4);
  const Cluster limited = merged({place("a", 0, {0, 1, 2, 3}, 1.5), place("a", 0, {4, 5}, 1.5)});
  EXPECT_EQ(limited.ranks[0].usable_cores, 1);  // a fraction of a core lets nobody spin
  EXPECT_EQ(merged({place("a", -1, {}, 0)}).ranks[0].usable_cores, 1);
}

TEST(Cluster, AsksOnlyTheLowestRankOfAHost) {
  const std::vector<RankPlace> places{place("a", 0, {0}), place("b", 0, {0}), place("a", 0, {0}), place("c", 0, {0}),
                                      place("b", 0, {0})};
  EXPECT_EQ(host_leaders(places), (std::vector{0, 1, 3}));
}

TEST(Cluster, NamesTheRank_WhenALeaderPublishedNothingOrAnother) {
  const std::vector<RankPlace> places{place("a", 0, {0}), place("b", 0, {0})};
  const auto error_of = [&](const Bytes& second) -> std::string {
    try {
      (void)merge_cluster(places, std::vector<Bytes>{published(sample_machine("a")), second});
    } catch (const Error& error) {
      EXPECT_EQ(error.rank(), 1);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({}), "rank 1 is the lowest of host 'b' and published no machine");
  EXPECT_EQ(error_of(published(sample_machine("x"))), "machine of rank 1: it is of host 'x', but the rank said 'b'");
  EXPECT_EQ(error_of({std::byte{'E'}, std::byte{'n'}, std::byte{'o'}}), "rank 1 cannot see its machine: no");
  EXPECT_THAT(error_of({std::byte{'M'}, std::byte{'{'}}), testing::StartsWith("machine of rank 1: not JSON: "));
}

/// Seven ranks as threads on three pretended hosts: all end with the same cluster after two rounds.
TEST(Cluster, IsEqualOnAllRanks_WhenGathered) {
  const std::vector<std::string> host_of{"h0", "h1", "h0", "h2", "h1", "h1", "h0"};
  auto exchanges = thread_exchanges(static_cast<int>(host_of.size()), std::chrono::seconds(60));
  std::vector<Cluster> found(host_of.size());
  std::vector<int> rounds(host_of.size());
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < host_of.size(); ++r) {
      ranks.emplace_back([&, r] {
        Exchange counted = exchanges[r];
        counted.all_gather = [&, r](const Bytes& mine) {
          ++rounds[r];
          return exchanges[r].all_gather(mine);
        };
        Config config;
        config.host_id = host_of[r];
        found[r] = gather_cluster(counted, config);
      });
    }
  }
  for (const Cluster& cluster : found) EXPECT_EQ(cluster, found[0]);
  EXPECT_THAT(rounds, testing::Each(2));
  EXPECT_EQ(found[0].groups_by_host(), (Groups{{0, 2, 6}, {1, 4, 5}, {3}}));
  EXPECT_EQ(found[0].hosts[2].identity, "h2");
}

}  // namespace
}  // namespace sinew
