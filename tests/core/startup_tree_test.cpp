#include <cmath>
#include <startup_tree/simulated_start.hpp>
#include <vector>

#include <gtest/gtest.h>

namespace sinew::bench {
namespace {

double log2_of(int ranks) { return std::log2(static_cast<double>(ranks)); }

TEST(StartupTree, SendsAtMostNLogNMessages_WithNoBurstAtRank0) {
  double before = INFINITY;
  for (const int ranks : {1'000, 10'000, 100'000}) {
    SCOPED_TRACE(ranks);
    const StartCounts c = simulate_start({.ranks = ranks, .rounds = 2});
    const int hosts = ranks / 8;
    const double per_n_log_n = static_cast<double>(c.messages) / (ranks * log2_of(ranks));
    EXPECT_LE(per_n_log_n, before);
    before = per_n_log_n;
    EXPECT_LE(c.rank_0_messages, 6 * hosts + 500) << "two connections' questions and answers for each host at most";
    EXPECT_LE(c.rank_0_round_messages, 100);
    EXPECT_LE(c.rank_0_most_waiting, 100);
    EXPECT_LE(c.rank_0_most_connections, 64);
    EXPECT_LE(c.depth, 2 + std::ceil(std::log2(hosts) / std::log2(kRelayFanOut)));
  }
}

TEST(StartupTree, HoldsItsBounds_WhenProcessesStartWithinSeconds) {
  const StartCounts c = simulate_start({.ranks = 10'000, .rounds = 3, .spread = std::chrono::seconds(5)});
  EXPECT_LE(c.rank_0_round_messages, 100);
  EXPECT_LE(c.rank_0_most_waiting, 100);
  EXPECT_LE(c.messages, 10'000 * 3 * log2_of(10'000));
}

TEST(StartupTree, TakesTheTimeOfTheBytes_ThatRanksContribute) {
  constexpr int kRanks = 10'000;
  constexpr std::size_t kBytes = 400;
  const StartCounts c = simulate_start({.ranks = kRanks, .rounds = 2, .contribution = kBytes});
  const double answers = static_cast<double>(kRelayFanOut * kRanks * kBytes);  // that rank 0 sends in a round
  EXPECT_GT(c.rank_0_bytes, 2 * answers);
  EXPECT_LT(c.rank_0_bytes, 4 * answers);
  EXPECT_GT(c.last_round_seconds, answers / 1e9) << "a process copies 1 GB each second";
  EXPECT_LE(c.rank_0_round_messages, 100);
}

/// The bounds above are not those of any start: a star breaks them.
TEST(StartupTree, AStarHasABurstAtRank0) {
  const StartCounts c = simulate_start({.ranks = 10'000, .fan_out = 10'000, .rounds = 2, .pace = {}});
  EXPECT_GT(c.rank_0_round_messages, 1'000);
  EXPECT_GT(c.rank_0_most_waiting, 1'000);
  EXPECT_GT(c.rank_0_most_connections, 1'000);
}

}  // namespace
}  // namespace sinew::bench
