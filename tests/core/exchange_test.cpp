#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Bytes bytes_of(int rank, int round) { return {static_cast<std::byte>(rank), static_cast<std::byte>(round)}; }

/// Runs body(exchange) on one thread per rank.
template <class Body>
void on_threads(const std::vector<Exchange>& all, Body body) {
  std::vector<std::jthread> threads;
  for (const Exchange& e : all) threads.emplace_back([&body, e] { body(e); });
}

TEST(ThreadExchanges, GiveEverybodysBytesByRank_InEveryRound) {
  for (const int size : {1, 2, 5}) {
    on_threads(thread_exchanges(size, 30s), [size](const Exchange& e) {
      EXPECT_EQ(e.size, size);
      for (int round = 0; round < 50; ++round) {
        const auto all = e.all_gather(bytes_of(e.rank, round));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], bytes_of(r, round));
      }
    });
  }
}

TEST(ThreadExchanges, CarryAnyLength_AlsoNone) {
  on_threads(thread_exchanges(3, 30s), [](const Exchange& e) {
    const auto all = e.all_gather(Bytes(static_cast<std::size_t>(e.rank) * 1000));
    for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(all[r].size(), r * 1000);
  });
}

TEST(ThreadExchanges, NameTheAbsentRanks_WhenTheTimeIsUp) {
  const auto all = thread_exchanges(4, 50ms);
  on_threads({all[0], all[2]}, [](const Exchange& e) {
    try {
      static_cast<void>(e.all_gather({}));
      ADD_FAILURE() << "two of four were enough";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Timeout);
      EXPECT_THAT(error.what(), HasSubstr("ranks 1, 3 did not come"));
    }
  });
}

TEST(ThreadExchanges, RefuseTheLateRank_WhenOthersHaveGivenUp) {
  const auto all = thread_exchanges(2, 20ms);
  EXPECT_THROW(static_cast<void>(all[0].all_gather({})), Error);
  try {
    static_cast<void>(all[1].all_gather({}));
    ADD_FAILURE() << "completed a round that rank 0 has left";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Timeout);
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
  }
}

TEST(ExchangeAlone, ReturnsItsOwnBytes) {
  const Exchange e = exchange_alone();
  EXPECT_EQ(e.size, 1);
  EXPECT_EQ(e.all_gather(bytes_of(7, 7)), std::vector<Bytes>{bytes_of(7, 7)});
}

TEST(ExchangeAmong, GathersTheGroupOnly_WhileAllTakePart) {
  on_threads(thread_exchanges(5, 30s), [](const Exchange& base) {
    const bool even = base.rank % 2 == 0;
    const std::vector<int> members = even ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3};
    const Exchange e = exchange_among(base, members);
    EXPECT_EQ(e.rank, base.rank / 2);
    EXPECT_EQ(e.size, even ? 3 : 2);
    const auto all = e.all_gather(bytes_of(base.rank, 0));
    ASSERT_EQ(all.size(), members.size());
    for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(all[i], bytes_of(members[i], 0));
  });
}

TEST(ExchangeAmong, IsRefused_WhenTheCallerIsNoMember) {
  EXPECT_THROW(static_cast<void>(exchange_among(exchange_alone(), {1, 2})), Error);
}

}  // namespace
}  // namespace sinew
