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

TEST(ShmMeasure, FindsNothing_WhenThereIsNoTimeToMeasure) {
  test::run_as_threads(2, [](const Exchange& world) {
    ShmRank rank(world);
    EXPECT_EQ(rank.fabric().measure({{world.rank, {0, 1}, 0, 0}, world, {}}, {}), std::nullopt);
  });
}

}  // namespace
}  // namespace sinew
