#include <bit>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <sinew/core/call/determinism.hpp>
#include <support/sanitized.hpp>
#include <support/schedules.hpp>

// Which algorithms may say that they add by the canonical tree: those of which the verifier finds that they do.
namespace sinew {
namespace {

using test::PlacingKind;
using ::testing::HasSubstr;

CollectiveDesc ordered(Collective collective, ReduceOp op = ReduceOp::Sum, int root = 0) {
  CollectiveDesc desc = test::desc_of(collective, op, root);
  desc.dtype = DType::F32;
  desc.determinism = Determinism::Reproducible;
  return desc;
}

/// "direct of all_reduce", of all that reduce.
std::string name_of(const Algorithm& a) {
  return std::string(a.name) + " of " + std::string(sinew::name_of(a.collective));
}

ScheduleVerdict verdict_on(const Algorithm& a, const CollectiveDesc& desc, int ranks, PlacingKind placing) {
  return verify(Recipe(a).build_all(desc, test::in_place(placing, ranks)));
}

class CanonicalOrderOn : public ::testing::TestWithParam<int> {};

TEST_P(CanonicalOrderOn, IsWhatAlgorithmsKeepTo_ThatSaySo) {
  const int ranks = GetParam();
  std::size_t seen = 0;
  for (const Algorithm& a : all_algorithms()) {
    for (const ReduceOp op : test::ops_of(a.collective)) {
      for (const int root : test::roots_of(a.collective, ranks)) {
        const CollectiveDesc desc = ordered(a.collective, op, root);
        if (!reduces(a.collective) || !a.supports(desc, ranks).ok) continue;
        for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::InPlace, PlacingKind::Mixed}) {
          const ScheduleVerdict verdict = verdict_on(a, desc, ranks, placing);
          EXPECT_TRUE(verdict.ok) << test::label(a, desc, ranks, placing) << ": " << verdict.reason;
          ++seen;
        }
      }
    }
  }
  EXPECT_GE(seen, 4 * 9u);
}

/// Who could and says no is here by name, so that nobody is who need not be: by accident some small trees are right.
TEST_P(CanonicalOrderOn, IsRefusedByThoseThatDoNot) {
  const int ranks = GetParam();
  const std::map<std::string, std::set<int>> by_accident = {{"halving_doubling of reduce_scatter", {3}}};
  for (const Algorithm& a : all_algorithms()) {
    if (!reduces(a.collective) || a.collective == Collective::ReduceScatterV) continue;
    bool keeps = true;
    std::string reason;
    for (const int root : test::roots_of(a.collective, ranks)) {
      const CollectiveDesc desc = ordered(a.collective, ReduceOp::Sum, root);
      CollectiveDesc fast = desc;
      fast.determinism = Determinism::Fast;
      const Availability can = a.supports(desc, ranks);
      if (can.ok || !a.supports(fast, ranks).ok) continue;
      EXPECT_GT(ranks, 2) << name_of(a) << ": " << can.reason;
      EXPECT_THAT(can.reason, HasSubstr("canonical tree"));
      const ScheduleVerdict verdict = verdict_on(a, desc, ranks, PlacingKind::OutOfPlace);
      if (!verdict.ok) {
        EXPECT_THAT(verdict.reason, HasSubstr("is not summed up by the canonical tree"));
      }
      keeps = keeps && verdict.ok;
      reason = can.reason;
    }
    if (reason.empty() || !keeps) continue;
    const auto known = by_accident.find(name_of(a));
    EXPECT_TRUE(known != by_accident.end() && known->second.contains(ranks))
        << name_of(a) << " on " << ranks << " ranks could, and says: " << reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CanonicalOrderOn, ::testing::Range(1, test::kSanitized ? 14 : 65));

TEST(CanonicalOrder, IsThatOfSomethingForEverySum_OnAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 512; ++ranks) {
    std::map<Collective, std::set<std::string_view>> found;
    for (const Algorithm& a : all_algorithms()) {
      if (reduces(a.collective) && a.supports(ordered(a.collective), ranks).ok) found[a.collective].insert(a.name);
    }
    int ones = ranks;  // 1, 11, 111, ... and zeros behind them
    while (ones % 2 == 0) ones /= 2;
    const bool folds = std::has_single_bit(static_cast<unsigned>(ones) + 1);
    EXPECT_TRUE(found[Collective::AllReduce].contains("direct") && found[Collective::AllReduce].contains("binomial"));
    EXPECT_TRUE(found[Collective::Reduce].contains("direct") && found[Collective::Reduce].contains("binomial"));
    EXPECT_TRUE(found[Collective::ReduceScatter].contains("direct"));
    EXPECT_TRUE(found[Collective::ReduceScatterV].contains("direct"));
    EXPECT_EQ(found[Collective::AllReduce].contains("two_shot"), ranks > 2) << ranks;
    EXPECT_EQ(found[Collective::AllReduce].contains("recursive_doubling"), folds) << ranks;
    EXPECT_EQ(found[Collective::AllReduce].contains("halving_doubling"), folds) << ranks;
    EXPECT_EQ(found[Collective::AllReduce].contains("ring"), ranks <= 2) << ranks;
  }
}

/// The checker itself: rings are not the tree, whatever they say.
TEST(CanonicalOrder, IsNotThatOfARing) {
  for (const int ranks : {3, 4, 5, 8, 16}) {
    for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter}) {
      const ScheduleVerdict verdict =
          verdict_on(*find_algorithm(c, "ring"), ordered(c), ranks, PlacingKind::OutOfPlace);
      EXPECT_THAT(verdict.reason, HasSubstr("is not summed up by the canonical tree"));
      CollectiveDesc fast = ordered(c);
      fast.determinism = Determinism::Fast;
      EXPECT_TRUE(verdict_on(*find_algorithm(c, "ring"), fast, ranks, PlacingKind::OutOfPlace).ok);
      CollectiveDesc integers = ordered(c);
      integers.dtype = DType::I32;
      EXPECT_TRUE(verdict_on(*find_algorithm(c, "ring"), integers, ranks, PlacingKind::OutOfPlace).ok);
    }
  }
}

TEST(CanonicalOrder, IsAskedForWithAReason) {
  const auto why = [](std::string_view name, int ranks) {
    return find_algorithm(Collective::AllReduce, name)->supports(ordered(Collective::AllReduce), ranks).reason;
  };
  EXPECT_EQ(why("ring", 4), "adds in an order of its own, not by the canonical tree");
  EXPECT_EQ(why("recursive_doubling", 5), "the pairs that 5 ranks are folded into are not in the canonical tree");
  EXPECT_THAT(why("two_shot", 2), HasSubstr("only the canonical order of sums is worth"));
}

}  // namespace
}  // namespace sinew
