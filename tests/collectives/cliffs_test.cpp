// No size and no number of ranks costs far more than the one before it: what selection takes by one table of costs is
// judged by the time it takes where the links are as another table says.
#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/recorded_costs.hpp>
#include <support/sanitized.hpp>
#include <support/simulated_time.hpp>

namespace sinew {
namespace {

using test::Links;
using test::recorded_costs;

constexpr double kTwiceTheBytes = 2.5;
/// Links may have steps of their own, such as the end of a cache: a call may add so much to the steepest.
constexpr double kBeyondLinks = 1.25;
constexpr double kOneMoreRank = 1.9;
/// One more than a power of two of ranks: trees are a level deeper, and what halves folds the last one in.
constexpr double kOneMoreLevel = 2.4;
/// What measurements that are a quarter off may add.
constexpr double kOff = 1.3;
constexpr std::uint64_t kLeast = 8, kMost = 64 << 20;
constexpr int kRanks[] = {2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17};

/// So many ranks on one host, a core each.
Facts facts_of(int ranks, const Links& links) {
  Facts facts;
  for (int r = 0; r < ranks; ++r) facts.ranks.push_back({0, r});
  facts.cores_of_host = {ranks};
  for (const auto& [name, curve] : links.curves) {
    facts.transports.push_back(name);
    facts.links[{0, 0, false}].push_back({name, {true, {}, curve, name}});
  }
  facts.copy_bytes_per_s = links.copy_bytes_per_s;
  facts.reduce_bytes_per_s = links.reduce_bytes_per_s;
  return facts;
}

CollectiveDesc call_of(Collective collective, std::uint64_t bytes, int ranks) {
  CollectiveDesc desc{.collective = collective, .dtype = DType::U8, .op = ReduceOp::Max, .count = bytes};
  const auto parts = static_cast<std::uint64_t>(ranks);
  if (desc.bytes(ranks) != bytes) desc.count = (bytes + parts - 1) / parts;
  return desc;
}

struct Chosen {
  std::string way;
  Seconds time = 0;
};

Chosen choose(Collective collective, std::uint64_t bytes, int ranks, const Links& believed, const Links& real) {
  const Facts selects = facts_of(ranks, believed);
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  const CollectiveDesc desc = call_of(collective, bytes, ranks);
  const Selection selection = Selector(selects, all, {}).select(desc);
  return {selection.plan.chosen().algorithm + "@" + selection.transports.label,
          test::simulated_time(selection, desc, facts_of(ranks, real))};
}

/// The most that twice the bytes take on the best link, where all are as long.
double steepest(const Links& links) {
  const auto best = [&](double bytes) {
    Seconds least = 1;
    for (const auto& [name, curve] : links.curves) least = std::min(least, curve.seconds(bytes));
    return least;
  };
  double most = 0;
  for (std::uint64_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
    const auto n = static_cast<double>(bytes);
    most = std::max(most, best(2 * n) / best(n));
  }
  return most;
}

/// Every step that costs too much, in words; `allowed`: so many times what it may.
std::vector<std::string> cliffs(Collective collective, const Links& believed, const Links& real, double allowed = 1) {
  std::vector<std::string> found;
  const double twice = std::max(kTwiceTheBytes, kBeyondLinks * steepest(real));
  std::map<std::uint64_t, Chosen> with_fewer;
  int fewer = 0;
  for (const int ranks : kRanks) {
    std::map<std::uint64_t, Chosen> here;
    const Chosen* shorter = nullptr;
    for (std::uint64_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
      const Chosen& now = here[bytes] = choose(collective, bytes, ranks, believed, real);
      const auto judge = [&](const Chosen& before, double most, const std::string& step) {
        if (now.time <= most * before.time) return;
        found.push_back(fmt::format("{} of {} B on {} ranks takes {:.2f} us by {}, {:.2f} times as long as {} by {}",
                                    name_of(collective), bytes, ranks, now.time * 1e6, now.way, now.time / before.time,
                                    step, before.way));
      };
      if (shorter != nullptr) judge(*shorter, allowed * twice, "half as much");
      if (fewer == ranks - 1)
        judge(with_fewer[bytes],
              allowed * (std::has_single_bit(static_cast<unsigned>(fewer)) ? kOneMoreLevel : kOneMoreRank),
              "one rank fewer");
      shorter = &now;
    }
    with_fewer = std::move(here);
    fewer = ranks;
  }
  return found;
}

/// As another day's measurement might have it: every figure up to a quarter more or less.
Links perturbed(const Links& links, unsigned seed) {
  std::mt19937 numbers(seed);
  std::uniform_real_distribution<double> factor(0.8, 1.25);
  Links other = links;
  for (auto& [name, curve] : other.curves) {
    curve.latency_s *= factor(numbers);
    for (Knot& k : curve.knots) k.bytes_per_s *= factor(numbers);
  }
  other.copy_bytes_per_s *= factor(numbers);
  other.reduce_bytes_per_s *= factor(numbers);
  return other;
}

class Cliffs : public ::testing::TestWithParam<Collective> {};

TEST_P(Cliffs, AreNot_OnRecordedTables) {
  for (const auto& [machine, links] : recorded_costs()) {
    EXPECT_THAT(cliffs(GetParam(), links, links), ::testing::IsEmpty()) << machine;
  }
}

TEST_P(Cliffs, AreNot_WhereMeasurementsWereSomewhatOff) {
  for (const auto& [machine, links] : recorded_costs()) {
    for (unsigned seed = 1; seed <= (test::kSanitized ? 1 : 3); ++seed) {
      EXPECT_THAT(cliffs(GetParam(), perturbed(links, seed), links, kOff), ::testing::IsEmpty())
          << machine << ", " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Cliffs,
                         ::testing::Values(Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                           Collective::AllToAll, Collective::Broadcast, Collective::Reduce),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(Cliffs, AreSeen_WhereTheTableIsFarFromTheTruth) {
  const Links& real = recorded_costs().begin()->second;
  Links wrong = real;
  for (Knot& k : wrong.curves.at("tcp").knots) {
    if (k.bytes > 32 << 10) k.bytes_per_s *= 100;
  }
  EXPECT_THAT(cliffs(Collective::AllReduce, wrong, real, kOff), ::testing::Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace sinew
