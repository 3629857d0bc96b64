#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/gather_facts.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/transports/inproc/inproc.hpp>

namespace sinew {
namespace {

using testing::ElementsAre;

/// Threads as ranks of pretended hosts, four on each: what all of them gather from what `describe` makes each bring.
std::vector<Facts> gathered(int ranks, const std::function<void(int rank, LocalFacts& mine)>& describe) {
  auto exchanges = thread_exchanges(ranks, std::chrono::seconds(60));
  std::vector<std::unique_ptr<Transport>> rails;
  for (int r = 0; r < ranks; ++r) rails.push_back(inproc::make_transport(r, 0));
  std::vector<Facts> found(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto at = static_cast<std::size_t>(r);
      LocalFacts mine{fmt::format("h{}", r / 4), "one", 4, {}};
      mine.transports.push_back({.name = "inproc", .rail = rails[at].get(), .offload_facts = {}});
      describe(r, mine);
      found[at] = gather_facts(exchanges[at], mine, {}).facts;
    });
  }
  threads.clear();
  return found;
}

TEST(GatherFacts, KnowTheLinksOfEveryDevice_EquallyOnAll) {
  const std::vector<Facts> found = gathered(8, [](int rank, LocalFacts& mine) {
    mine.device = rank % 4;
    mine.links = {.model = "a GPU", .number = rank % 4, .nvlinks = rank, .nvlink_bytes_per_s = 1e9 * rank};
  });
  const std::vector<int> some = {1, 6};
  for (const Facts& facts : found) {
    const std::vector<DeviceLinks> devices = facts.devices_of(some);
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].nvlinks, 1);
    EXPECT_EQ(devices[0].host, 0);
    EXPECT_EQ(devices[1].nvlinks, 6);
    EXPECT_EQ(devices[1].number, 2);
    EXPECT_EQ(devices[1].host, 1) << "numbered by their ranks, whatever they are called";
  }
}

TEST(GatherFacts, KnowNoLinks_WhereARankHasNoDevice) {
  const std::vector<Facts> found = gathered(2, [](int rank, LocalFacts& mine) { mine.device = rank - 1; });
  const std::vector<int> both = {0, 1};
  EXPECT_TRUE(found[0].devices_of(both).empty());
  EXPECT_EQ(found[0].devices_of(std::span(both).last(1)).size(), 1u);
}

TEST(GatherFacts, KnowTheNicOfEveryRank_EquallyOnAll) {
  const std::vector<Facts> found = gathered(8, [](int rank, LocalFacts& mine) { mine.nic = 10 + rank % 4; });
  for (const Facts& facts : found) {
    std::vector<int> nics;
    for (const Facts::Rank& rank : facts.ranks) nics.push_back(rank.nic);
    EXPECT_THAT(nics, ElementsAre(10, 11, 12, 13, 10, 11, 12, 13));
  }
}

TEST(GatherFacts, CallATransportByNic_OnlyWhereItIsOnEveryRank) {
  const auto by_nic = [](const std::function<bool(int rank)>& is_so) {
    const auto found = gathered(8, [&](int rank, LocalFacts& mine) { mine.transports[0].by_nic = is_so(rank); });
    for (const Facts& facts : found) EXPECT_EQ(facts.by_nic, found[0].by_nic);
    return found[0].by_nic;
  };
  EXPECT_THAT(by_nic([](int) { return true; }), ElementsAre("inproc"));
  EXPECT_THAT(by_nic([](int rank) { return rank != 5; }), testing::IsEmpty());
}

TEST(GatherFacts, SayWhatDiffersAndWhatToDo_WhenRanksHaveOtherRules) {
  auto exchanges = thread_exchanges(2, std::chrono::seconds(60));
  std::array<std::unique_ptr<Transport>, 2> rails = {inproc::make_transport(0, 0), inproc::make_transport(1, 0)};
  std::array<std::string, 2> said;
  const auto gather = [&](std::size_t rank) {
    LocalFacts mine{"h", "one", 4, {}};
    mine.transports.push_back({.name = "inproc", .rail = rails[rank].get(), .offload_facts = {}});
    Config config;
    if (rank == 1) config.tune = {"all_reduce:0-1KiB:ring"};
    try {
      static_cast<void>(gather_facts(exchanges[rank], mine, config));
    } catch (const Error& e) {
      said[rank] = e.what();
    }
  };
  {
    const std::jthread other(gather, 1);
    gather(0);
  }
  for (const std::string& text : said) {
    EXPECT_EQ(text, fmt::format("user rules (SINEW_TUNE) differ: rank 0 on {0} has [], rank 1 on {0} has "
                                "[\"all_reduce:0-1KiB:ring\"]: set the variable alike for all ranks",
                                host_name()));
  }
}

}  // namespace
}  // namespace sinew
