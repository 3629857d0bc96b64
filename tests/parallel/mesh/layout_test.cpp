#include <array>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <sinew/parallel/mesh/layout.hpp>

#include "counted_groups.hpp"
#include "support/worlds.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;

struct Arrangements {
  std::vector<Axis> dense, expert;
};

/// Both arrangements, written down by hand from an order that has all names.
Arrangements arrange(int ranks, const LayoutSizes& s) {
  Arrangements made;
  for (const std::string& name : names_in(s.order)) {
    if (name == "tp") {
      made.dense.push_back({"tp", s.tp});
      made.expert.push_back({"etp", s.etp});
    } else if (name == "cp") {
      made.dense.push_back({"cp", s.cp});
    } else if (name == "ep") {
      made.expert.push_back({"ep", s.ep});
    } else if (name == "dp") {
      made.dense.push_back({"dp", ranks / s.tp / s.cp / s.pp});
      made.expert.push_back({"edp", ranks / s.etp / s.ep / s.pp});
    } else {
      made.dense.push_back({"pp", s.pp});
      made.expert.push_back({"pp", s.pp});
    }
  }
  return made;
}

TEST(Layout, GivesTheGroupsThatMegatronDocuments_WhenTp2Pp4On16Ranks) {
  const Layout layout(16, {.tp = 2, .pp = 4});
  EXPECT_EQ(layout.dense().groups("tp"),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(layout.dense().groups("dp"),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(layout.dense().groups("pp"), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(layout.expert().groups("pp"), layout.dense().groups("pp"));
  EXPECT_EQ(layout.expert().size("edp"), 4);
  EXPECT_EQ(layout.embedding_groups(), (Groups{{0, 12}, {1, 13}, {2, 14}, {3, 15}}));
  EXPECT_EQ(layout.position_embedding_groups(), (Groups{{0}, {1}, {2}, {3}}));
}

TEST(Layout, HasOneEmbeddingRankPerPipeline_WhenItHasOneStage) {
  const Layout layout(3, {});
  EXPECT_EQ(layout.embedding_groups(), (Groups{{0}, {1}, {2}}));
  EXPECT_EQ(layout.position_embedding_groups(), (Groups{{0}, {1}, {2}}));
}

TEST(Layout, CutsContextParallelismIntoLevels_AsMegatronDocuments) {
  const Layout layout(16, {.cp = 16, .cp_levels = {2, 2, 4}});
  ASSERT_EQ(layout.levels(), 3);
  EXPECT_EQ(layout.by_level().groups("cp0"),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(layout.by_level().groups("cp1"),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(layout.by_level().groups("cp2"), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
}

TEST(Layout, CutsEachContextGroupIntoLevels_WhereTensorParallelRanksLieBetween) {
  const Layout layout(24, {.tp = 3, .cp = 4, .cp_levels = {2, 2}});
  EXPECT_EQ(layout.by_level().group_of(16, "cp0"), (std::vector{13, 16}));
  EXPECT_EQ(layout.by_level().group_of(16, "cp1"), (std::vector{16, 22}));
  EXPECT_EQ(layout.by_level().groups("cp0-cp1"), layout.dense().groups("cp"));
  EXPECT_EQ(Layout(4, {.cp = 4}).by_level().groups("cp0"), (Groups{{0, 1, 2, 3}}));
}

struct Large {
  int ranks, tp, cp, pp, ep, etp;
};

constexpr Large kLarge[] = {
    {96, 2, 3, 4, 4, 1},     {128, 8, 1, 4, 8, 1},     {144, 3, 2, 6, 4, 3},     {160, 4, 1, 5, 8, 2},
    {192, 8, 3, 2, 16, 1},   {210, 7, 1, 5, 3, 1},     {224, 4, 2, 7, 8, 4},     {243, 3, 9, 3, 27, 1},
    {256, 8, 2, 4, 16, 2},   {256, 1, 1, 1, 64, 1},    {288, 6, 2, 4, 8, 3},     {320, 8, 1, 10, 4, 8},
    {343, 7, 7, 7, 7, 1},    {384, 8, 4, 6, 16, 1},    {448, 8, 1, 7, 32, 2},    {512, 8, 8, 8, 64, 1},
    {512, 4, 1, 1, 128, 4},  {600, 5, 3, 4, 10, 5},    {640, 2, 2, 2, 32, 1},    {720, 6, 5, 3, 12, 2},
    {768, 8, 2, 6, 32, 4},   {840, 7, 2, 5, 12, 1},    {960, 4, 3, 5, 16, 4},    {1000, 5, 2, 10, 20, 1},
    {1024, 8, 4, 8, 8, 1},   {1152, 8, 1, 9, 64, 2},   {1344, 8, 7, 3, 56, 1},   {1536, 8, 2, 12, 16, 1},
    {1792, 8, 4, 7, 64, 1},  {2048, 8, 1, 16, 128, 1}, {2187, 9, 3, 9, 27, 3},   {2560, 8, 2, 10, 32, 8},
    {3072, 8, 16, 8, 8, 8},  {3600, 6, 4, 15, 20, 6},  {4096, 8, 8, 16, 256, 1}, {5040, 7, 5, 9, 56, 2},
    {6144, 8, 4, 12, 64, 4}, {8192, 8, 16, 16, 32, 2}, {10240, 8, 2, 20, 64, 8}, {10752, 8, 1, 16, 96, 7}};

TEST(Layout, FindsWhatCountingFinds_For40LayoutsOfUpTo10752Ranks) {
  static_assert(std::size(kLarge) == 40);
  const std::array orders{"tp-cp-ep-dp-pp", "tp-ep-cp-dp-pp", "cp-dp-tp-ep-pp", "dp-ep-tp-cp-pp"};
  for (std::size_t i = 0; i < std::size(kLarge); ++i) {
    const Large& l = kLarge[i];
    const LayoutSizes sizes{.tp = l.tp, .cp = l.cp, .pp = l.pp, .ep = l.ep, .etp = l.etp, .order = orders[i % 4]};
    const Layout layout(l.ranks, sizes);
    const Arrangements expected = arrange(l.ranks, sizes);
    for (const JobGroup& row : kJobGroups) {
      const bool dense = row.of == Arrangement::Dense;
      ASSERT_EQ((dense ? layout.dense() : layout.expert()).groups(row.axes),
                counted_groups(dense ? expected.dense : expected.expert, names_in(row.axes)))
          << l.ranks << " ranks, " << sizes.order << ", along " << row.axes;
    }
    ASSERT_EQ(layout.expert().groups("pp"), layout.dense().groups("pp"));
  }
}

TEST(Layout, CanBeMadeExactlyWhereTheSizesDivide_AndPipelinesAreTheSame) {
  const std::array orders{"tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp", "pp-tp-cp-ep-dp", "dp-pp-tp-ep-cp", "tp-pp-cp-dp-ep"};
  int made = 0;
  int refused_for_pipelines = 0;
  for (const int ranks : {1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 36}) {
    for (int code = 0; code < 1024; ++code) {
      const std::array sizes{1, 2, 3, 4};
      const auto digit = [&](int place) { return sizes[static_cast<std::size_t>(code >> 2 * place & 3)]; };
      for (const char* order : orders) {
        const LayoutSizes s{
            .tp = digit(0), .cp = digit(1), .pp = digit(2), .ep = digit(3), .etp = digit(4), .order = order};
        bool expected = ranks % (s.tp * s.cp * s.pp) == 0 && ranks % (s.etp * s.ep * s.pp) == 0;
        if (expected) {
          const Arrangements a = arrange(ranks, s);
          expected = counted_groups(a.dense, {"pp"}) == counted_groups(a.expert, {"pp"});
          refused_for_pipelines += expected ? 0 : 1;
        }
        bool can = true;
        try {
          const Layout layout(ranks, s);
          ++made;
        } catch (const Error&) {
          can = false;
        }
        ASSERT_EQ(can, expected) << ranks << " ranks: " << s.order << ' ' << s.tp << s.cp << s.pp << s.ep << s.etp;
      }
    }
  }
  EXPECT_GT(made, 1000);
  EXPECT_GT(refused_for_pipelines, 100);
}

TEST(Layout, SaysAllThatIsWrongAtOnce) {
  EXPECT_EQ(complaint([] { Layout(16, {.tp = 3, .ep = 5, .order = "tp-dp-ep-xp", .cp_levels = {2}}); }),
            "layout of 16 ranks breaks 4 rules:\n"
            "  dense: 16 ranks are not a multiple of tp 3 * cp 1 * pp 1; expected tp 2 or 15 ranks or 30 ranks\n"
            "  expert: 16 ranks are not a multiple of etp 1 * ep 5 * pp 1; expected ep 4 or 15 ranks or 30 ranks\n"
            "  cp_levels: levels 2 do not multiply to cp 1; expected cp_levels 1\n"
            "  order_known: order 'tp-dp-ep-xp' names 'xp', and there are tp, cp, ep, dp, pp; expected order tp-dp-ep");
  EXPECT_EQ(complaint([] { Layout(8, {.ep = 3}); }),
            "layout of 8 ranks breaks 1 rule:\n"
            "  expert: 8 ranks are not a multiple of etp 1 * ep 3 * pp 1; expected ep 2 or 6 ranks or 9 ranks");
}

}  // namespace
}  // namespace sinew::parallel::test
