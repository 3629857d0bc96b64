#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/hierarchy/near_order.hpp>
#include <sinew/collectives/hierarchy/ordered.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;
using ::testing::HasSubstr;

std::vector<int> shuffled(int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(ranks)));
  return order;
}

TEST(Ordered, IsRight_ForEveryAlgorithmThatCanBe) {
  std::set<std::pair<Collective, std::string_view>> seen;
  for (const int ranks : {2, 3, 5, 6, 8, test::kSanitized ? 9 : 13}) {
    for (const Codec codec : {Codec::None, Codec::Int8}) {
      test::for_each_schedule(
          ranks,
          [&](const Algorithm& a, const CollectiveDesc& desc, PlacingKind placing) {
            if (!Ordered::supports(a, desc, ranks).ok) return;
            seen.emplace(a.collective, a.name);
            const Recipe recipe{Ordered{&a, shuffled(ranks)}};
            const ScheduleVerdict verdict = verify(recipe.build_all(desc, test::in_place(placing, ranks)));
            EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, placing) << ": " << verdict.reason << " (rank "
                                    << verdict.rank << ", step " << verdict.step << ")";
          },
          codec);
    }
  }
  EXPECT_GE(seen.size(), 15u);
  EXPECT_TRUE(seen.contains({Collective::AllGatherV, "ring"}));
}

/// Pairs of ranks of different parts that exchange messages, whichever way.
std::set<std::pair<int, int>> crossing_pairs(const Schedule& schedule, const std::vector<int>& part_of) {
  std::set<std::pair<int, int>> pairs;
  for (const Program& p : schedule.programs) {
    for (const Step& s : p.steps) {
      if (s.op == Op::Send && part_of[static_cast<std::size_t>(p.rank)] != part_of[static_cast<std::size_t>(s.peer)])
        pairs.emplace(p.rank, s.peer);
    }
  }
  return pairs;
}

TEST(Ordered, ARingLeavesEachHostOnce_WhereRanksWereDealtInTurns) {
  constexpr int kRanks = 12, kHosts = 4;
  std::vector<int> hosts;
  for (int r = 0; r < kRanks; ++r) hosts.push_back(r % kHosts);
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter}) {
    const Algorithm& ring = *find_algorithm(c, "ring");
    const auto placed = test::in_place(PlacingKind::OutOfPlace, kRanks);
    const Ordered ordered{&ring, near_order({{hosts}}, kRanks)};
    EXPECT_EQ(crossing_pairs(Recipe(ordered).build_all(test::desc_of(c), placed), hosts).size(), kHosts);
    EXPECT_EQ(crossing_pairs(Recipe(ring).build_all(test::desc_of(c), placed), hosts).size(), kRanks);
  }
}

TEST(Ordered, SaysWhatItCannotKeep) {
  const auto why = [](Collective c, std::string_view name, Determinism level = Determinism::Fast) {
    CollectiveDesc desc = test::desc_of(c);
    desc.dtype = DType::F32;
    desc.determinism = level;
    return Ordered::supports(*find_algorithm(c, name), desc, 8).reason;
  };
  EXPECT_THAT(why(Collective::AllGather, "bruck"), HasSubstr("runs of chunks"));
  EXPECT_THAT(why(Collective::AllToAll, "pairwise"), HasSubstr("all_to_all does not depend on who is where"));
  EXPECT_THAT(why(Collective::AllReduce, "direct", Determinism::Reproducible), HasSubstr("order of sums"));
  EXPECT_EQ(why(Collective::AllReduce, "ring"), "");
  const CollectiveDesc sum = test::desc_of(Collective::AllReduce);
  EXPECT_THAT(Ordered::supports(*find_algorithm(sum.collective, "ring"), sum, 1).reason, HasSubstr("one rank"));
}

}  // namespace
}  // namespace sinew
