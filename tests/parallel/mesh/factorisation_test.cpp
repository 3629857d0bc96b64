#include <array>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sinew/parallel/mesh/factorisation.hpp>

#include "counted_groups.hpp"
#include "support/worlds.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;

/// Compares everything that a factorisation says about the groups along `named` with what counting finds.
void expect_counted(const Factorisation& f, const std::vector<std::string>& named) {
  const std::string axes = fmt::format("{}", fmt::join(named, "-"));
  const Groups expected = counted_groups(f.axes(), named);
  ASSERT_EQ(f.groups(axes), expected) << f.to_string() << ", along " << axes;
  ASSERT_EQ(f.size(axes), static_cast<int>(expected[0].size())) << f.to_string() << ", along " << axes;
  for (const std::vector<int>& group : expected) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (f.index(group[i], axes) != static_cast<int>(i))
        FAIL() << f.to_string() << ", rank " << group[i] << ": " << axes;
    }
    ASSERT_EQ(f.group_of(group.back(), axes), group) << f.to_string() << ", along " << axes;
  }
}

/// Along every set of axes.
void expect_all_counted(const Factorisation& f) {
  for (unsigned set = 1; set < 1U << f.axes().size(); ++set) {
    std::vector<std::string> named;
    for (std::size_t i = 0; i < f.axes().size(); ++i) {
      if ((set >> i & 1) != 0) named.push_back(f.axes()[i].name);
    }
    ASSERT_NO_FATAL_FAILURE(expect_counted(f, named));
  }
}

TEST(Factorisation, GivesTheGroupsThatMegatronDocuments_WhenTp2Pp4On16Ranks) {
  const Factorisation f({{"tp", 2}, {"dp", 2}, {"pp", 4}});
  EXPECT_EQ(f.groups("tp"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(f.groups("dp"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(f.groups("pp"), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
}

TEST(Factorisation, FindsWhatCountingFinds_ForEveryFactorisationOf1To64Ranks) {
  const std::array orders{"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp", "cp-pp-tp-dp"};
  int factorisations = 0;
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (int a = 1; a <= ranks; ++a) {
      for (int b = 1; a * b <= ranks; ++b) {
        for (int c = 1; a * b * c <= ranks; ++c) {
          if (ranks % (a * b * c) != 0) continue;
          const std::array<Axis, 4> sizes{{{"tp", a}, {"cp", b}, {"dp", c}, {"pp", ranks / (a * b * c)}}};
          ++factorisations;
          for (const char* order : orders) {
            ASSERT_NO_FATAL_FAILURE(expect_all_counted(Factorisation::ordered(order, sizes)));
          }
        }
      }
    }
  }
  EXPECT_EQ(factorisations, 1824);  // the divisor function d4 summed over 1..64
}

TEST(Factorisation, OrdersAFlattenedAxisAsItself_HoweverTheStringDoes) {
  const Factorisation f({{"tp", 2}, {"cp", 3}, {"dp", 2}});
  EXPECT_EQ(f.in_order("dp-tp"), "tp-dp");
  EXPECT_EQ(f.groups("dp-tp"), f.groups("tp-dp"));
  EXPECT_EQ(f.group_of(5, "dp-tp"), (std::vector{4, 5, 10, 11}));
  EXPECT_EQ(f.index(10, "dp-tp"), 2);
}

TEST(Factorisation, HasTheAxesOfAnOrder_AndThoseOfSizeOneThatItLeavesOut) {
  const std::array<Axis, 3> sizes{{{"tp", 2}, {"pp", 3}, {"cp", 1}}};
  const Factorisation f = Factorisation::ordered("pp-dp-tp", sizes);
  EXPECT_EQ(f.axes(), (std::vector<Axis>{{"pp", 3}, {"dp", 1}, {"tp", 2}, {"cp", 1}}));
  EXPECT_EQ(f.stride("tp"), 3);
  EXPECT_TRUE(f.has("cp"));
  EXPECT_FALSE(f.has("ep"));
  EXPECT_EQ(f.to_string(), "pp 3, dp 1, tp 2, cp 1");
}

TEST(Factorisation, SlicesToTheRanksOfOneGroup) {
  const Factorisation f({{"tp", 2}, {"dp", 3}, {"pp", 2}});
  const Factorisation slice = f.slice("pp-tp");
  EXPECT_EQ(slice.axes(), (std::vector<Axis>{{"tp", 2}, {"pp", 2}}));
  const std::vector<int> group = f.group_of(2, "tp-pp");  // {2, 3, 8, 9}, which are 0..3 of the slice
  for (const std::vector<int>& line : slice.groups("pp")) {
    std::vector<int> ranks;
    for (const int i : line) ranks.push_back(group[static_cast<std::size_t>(i)]);
    EXPECT_EQ(ranks, f.group_of(ranks[0], "pp"));
  }
}

TEST(Factorisation, CutsAnAxis_SoThatTheFirstPartIsNearest) {
  const Factorisation f = Factorisation({{"tp", 2}, {"dp", 8}}).split("dp", {{"shard", 4}, {"replicate", 2}});
  EXPECT_EQ(f.groups("shard"), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(f.group_of(3, "replicate"), (std::vector{3, 11}));
  EXPECT_EQ(f.group_of(3, "shard-replicate"), Factorisation({{"tp", 2}, {"dp", 8}}).group_of(3, "dp"));
}

TEST(Factorisation, NamesWhatIsWrong) {
  const auto made = [](std::vector<Axis> axes) { return complaint([&] { Factorisation f(std::move(axes)); }); };
  EXPECT_EQ(made({{"", 2}}), "factorisation: an axis named '': expected a name without '-', which joins several");
  EXPECT_EQ(made({{"a-b", 2}}), "factorisation: an axis named 'a-b': expected a name without '-', which joins several");
  EXPECT_EQ(made({{"dp", 0}}), "factorisation: axis dp of size 0: expected 1 or more");
  EXPECT_EQ(made({{"dp", 2}, {"dp", 2}}), "factorisation: axis dp is there twice, in dp 2, dp 2");
  EXPECT_EQ(made({{"a", 1 << 16}, {"b", 1 << 15}}), "factorisation: a 65536, b 32768: more than 2147483647 ranks");

  const Factorisation f({{"tp", 2}, {"dp", 3}});
  EXPECT_EQ(complaint([&] { (void)f.size("tp-xp"); }), "factorisation: no axis 'xp': there are tp 2, dp 3");
  EXPECT_EQ(complaint([&] { (void)f.size(""); }), "factorisation: no axis '': there are tp 2, dp 3");
  EXPECT_EQ(complaint([&] { (void)f.groups("tp-"); }), "factorisation: no axis '': there are tp 2, dp 3");
  EXPECT_EQ(complaint([&] { (void)f.size("dp-tp-dp"); }), "factorisation: 'dp-tp-dp' names axis dp twice");
  EXPECT_EQ(complaint([&] { (void)f.stride("tp-dp"); }), "factorisation: no axis 'tp-dp': there are tp 2, dp 3");
  EXPECT_EQ(complaint([&] { (void)f.index(6, "tp"); }), "factorisation: rank 6: expected 0..5");
  EXPECT_EQ(complaint([&] { (void)f.group_of(-1, "tp"); }), "factorisation: rank -1: expected 0..5");
  EXPECT_EQ(complaint([&] {
              (void)f.split("dp", {{"a", 2}, {"b", 2}});
            }),
            "factorisation: axis dp of size 3 cut into a 2, b 2, which are 4");

  const auto ordered = [](std::string_view order, std::vector<Axis> sizes) {
    return complaint([&] { Factorisation::ordered(order, sizes); });
  };
  EXPECT_EQ(ordered("tp-dp", {{"pp", 2}}), "factorisation: order 'tp-dp' has no place for axis pp of size 2");
  EXPECT_EQ(ordered("tp-dp", {{"tp", 2}, {"tp", 3}}), "factorisation: two sizes for axis tp");
  EXPECT_EQ(ordered("tp-tp", {}), "factorisation: axis tp is there twice, in tp 1, tp 1");
  EXPECT_EQ(ordered("tp", {{"cp", 0}}), "factorisation: axis cp of size 0: expected 1 or more");
}

}  // namespace
}  // namespace sinew::parallel::test
