#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <transports/shm_rank.hpp>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/transports/shm/offload/facts.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using test::run_shm_case;
using test::ShmCase;
using test::ShmRank;

TEST(ShmMeasure, MeasuresThePair_AndBothRanksFindTheSame) {
  constexpr int kBusy = 77;
  const std::vector<int> statuses = test::fork_ranks(2, [](const Exchange& world) {
    ShmRank rank(world);
    const auto measured = rank.fabric().measure({{world.rank, {0, 1}, 0, 0}, world, {}}, std::chrono::minutes(1));
    if (!measured) ::_exit(kBusy);
    const Bytes& facts = *measured;
    const auto all = world.all_gather(facts);
    EXPECT_EQ(all[0], all[1]);
    const shm::Facts found = shm::decode_facts(facts);
    for (std::size_t k = 0; k < shm::Facts::kKnots; ++k) {
      EXPECT_GT(found.knot_seconds[k], k == 0 ? 0 : found.knot_seconds[k - 1] * 0.999) << k;
      EXPECT_LT(found.knot_seconds[k], 10.0) << k;
    }
    for (const auto& collective : found.apart) {
      for (const double factor : collective) EXPECT_TRUE(factor >= 0.2 && factor <= 5) << factor;
    }
    ShmCase c;
    c.count = 100'003;
    ShmRank again(world, facts);
    run_shm_case(again, c);
  });
  const auto ended_with = [&](int code) {
    return std::ranges::all_of(statuses, [code](int s) { return WIFEXITED(s) && WEXITSTATUS(s) == code; });
  };
  if (ended_with(kBusy)) GTEST_SKIP() << "other programs had the cores during each measurement of a whole minute";
  EXPECT_TRUE(ended_with(0)) << testing::PrintToString(statuses);
}

/// Calls that were found to be slow are predicted so, without a jump at the lengths that were measured.
TEST(ShmMeasure, PredictsLongCallsAsTheyWereTimed) {
  shm::Facts even, slow;
  even.cores = slow.cores = 2;            // so no rank waits for a core
  for (auto& at : slow.apart[0]) at = 3;  // broadcasts
  const auto ratio = [&](Collective c, std::uint64_t bytes) {
    const CollectiveDesc desc{.collective = c, .dtype = DType::U8, .count = bytes};
    return shm::predict(desc, 2, slow) / shm::predict(desc, 2, even);
  };
  for (const Collective c : {Collective::Broadcast, Collective::Scatter}) {
    EXPECT_DOUBLE_EQ(ratio(c, 1 << 20), 3);
    EXPECT_DOUBLE_EQ(ratio(c, 64 << 20), 3);
    EXPECT_DOUBLE_EQ(ratio(c, 64 << 10), 1);
    for (std::uint64_t bytes = 8; bytes < 2 << 20; bytes += bytes / 8) {
      EXPECT_GE(ratio(c, bytes), 1) << bytes;
      EXPECT_LE(ratio(c, bytes + bytes / 8), 1.5 * ratio(c, bytes)) << bytes;
    }
  }
  for (const Collective c : {Collective::AllReduce, Collective::Gather, Collective::AllGather})
    EXPECT_DOUBLE_EQ(ratio(c, 1 << 20), 1);
}

TEST(ShmMeasure, FindsNothing_WhenThereIsNoTimeToMeasure) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    EXPECT_EQ(rank.fabric().measure({{world.rank, {0, 1}, 0, 0}, world, {}}, {}), std::nullopt);
  });
}

}  // namespace
}  // namespace sinew
