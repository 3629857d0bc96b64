#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/hierarchy/hierarchical_algorithm.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/verify.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using test::PlacingKind;
using ::testing::HasSubstr;

constexpr Collective kComposed[] = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                    Collective::AllToAll,  Collective::AllToAllV, Collective::Broadcast,
                                    Collective::Reduce};

/// The first sizes[0] ranks in part 0, and so on.
std::vector<int> parts_of_sizes(const std::vector<int>& sizes) {
  std::vector<int> part_of;
  for (std::size_t p = 0; p < sizes.size(); ++p)
    part_of.insert(part_of.end(), static_cast<std::size_t>(sizes[p]), static_cast<int>(p));
  return part_of;
}

/// Dealt in turns, as some launchers place ranks.
std::vector<int> parts_in_turns(int ranks, int parts) {
  std::vector<int> part_of;
  for (int r = 0; r < ranks; ++r) part_of.push_back(r % parts);
  return part_of;
}

struct Layout {
  std::string name;
  Levels levels;
  int ranks() const { return static_cast<int>(levels.part_of.front().size()); }
};

std::vector<Layout> layouts() {
  return {{"one_each_but_one", {{parts_of_sizes({2, 1})}}},
          {"two_by_two", {{parts_of_sizes({2, 2})}}},
          {"1_2_3", {{parts_of_sizes({1, 2, 3})}}},
          {"3_and_5", {{parts_of_sizes({3, 5})}}},
          {"5_and_3", {{parts_of_sizes({5, 3})}}},
          {"in_turns_7_of_3", {{parts_in_turns(7, 3)}}},
          {"four_by_four", {{parts_of_sizes({4, 4, 4, 4})}}},
          {"nodes_and_hosts", {{parts_of_sizes({2, 2, 2, 2}), parts_of_sizes({4, 4})}}},
          {"uneven_nodes_and_hosts", {{parts_of_sizes({1, 3, 2, 4, 1}), parts_of_sizes({4, 2, 5})}}},
          {"three_levels",
           {{parts_of_sizes({2, 1, 2, 2, 3, 1, 2}), parts_of_sizes({3, 4, 4, 2}), parts_of_sizes({7, 6})}}}};
}

/// Everything that can run inside and across.
std::vector<HierarchicalAlgorithm> hierarchical_algorithms(const Levels& levels, const CollectiveDesc& desc) {
  std::vector<HierarchicalAlgorithm> all;
  const int ranks = static_cast<int>(levels.part_of.front().size());
  for (const Algorithm& inside : all_algorithms()) {
    if (inside.collective != first_inside(desc.collective)) continue;
    for (const Algorithm& across : all_algorithms()) {
      if (across.collective != desc.collective) continue;
      const HierarchicalAlgorithm how{levels, inside.name, across.name};
      if (how.supports(desc, ranks).ok) all.push_back(how);
    }
  }
  return all;
}

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class HierarchicalAlgorithmOn : public ::testing::TestWithParam<Layout> {};

TEST_P(HierarchicalAlgorithmOn, IsRight_OutOfPlaceInPlaceAndMixed) {
  const Layout& layout = GetParam();
  const int ranks = layout.ranks();
  for (const Collective c : kComposed) {
    const auto all = hierarchical_algorithms(layout.levels, test::desc_of(c));
    EXPECT_GE(all.size(), moves_runs(c) ? 1u : 4u) << name_of(c);
    for (const HierarchicalAlgorithm& how : all) {
      for (const ReduceOp op : test::ops_of(c)) {
        for (const int root : test::roots_of(c, ranks)) {
          const CollectiveDesc desc = test::desc_of(c, op, root);
          for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::InPlace, PlacingKind::Mixed}) {
            const ScheduleVerdict verdict = verify(Recipe(how).build_all(desc, test::in_place(placing, ranks)));
            EXPECT_TRUE(verdict.ok) << name_of(c) << ' ' << how.inside << '/' << how.across << " operator "
                                    << static_cast<int>(op) << " root " << root << " placing "
                                    << static_cast<int>(placing) << ": " << verdict.reason << " (rank " << verdict.rank
                                    << ", step " << verdict.step << ")";
          }
        }
      }
    }
  }
}

CollectiveDesc coded_desc(Collective c, ReduceOp op = ReduceOp::Sum) {
  CollectiveDesc desc = test::desc_of(c, op);
  desc.dtype = DType::F32;
  desc.codec = Codec::Int8;
  return desc;
}

bool is_coded(const Program& p, Slice s) {
  return s.space == Space::Scratch && (p.scratch_class[s.first] & kCoded) != 0;
}

TEST_P(HierarchicalAlgorithmOn, IsRightAndCodesWhatCrossesAlone_WithACodec) {
  const Layout& layout = GetParam();
  const std::vector<int>& hosts = layout.levels.part_of.back();
  for (const Collective c : kComposed) {
    if (!may_be_coded(c)) continue;
    const auto all = hierarchical_algorithms(layout.levels, coded_desc(c));
    EXPECT_GE(all.size(), 4u) << name_of(c);
    for (const HierarchicalAlgorithm& how : all) {
      for (const ReduceOp op : test::ops_of(c)) {
        for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::InPlace, PlacingKind::Mixed}) {
          const CollectiveDesc desc = coded_desc(c, op);
          const Schedule schedule = Recipe(how).build_all(desc, test::in_place(placing, layout.ranks()));
          const ScheduleVerdict verdict = verify(schedule);
          EXPECT_TRUE(verdict.ok) << name_of(c) << ' ' << how.inside << '/' << how.across << " operator "
                                  << static_cast<int>(op) << " placing " << static_cast<int>(placing) << ": "
                                  << verdict.reason << " (rank " << verdict.rank << ", step " << verdict.step << ")";
          for (const Program& p : schedule.programs) {
            for (const Step& s : p.steps) {
              if (s.op != Op::Send && s.op != Op::Recv) continue;
              const bool crosses = hosts[static_cast<std::size_t>(p.rank)] != hosts[static_cast<std::size_t>(s.peer)];
              EXPECT_EQ(is_coded(p, s.op == Op::Send ? s.a : s.dst), crosses);
            }
          }
        }
      }
    }
  }
}

/// Elements that cross from part to part, counted where they leave or where they arrive.
std::vector<std::uint64_t> crossing(const Schedule& schedule, const std::vector<int>& part_of, Op end) {
  std::vector<std::uint64_t> all(schedule.programs.size());
  for (const Program& p : schedule.programs) {
    const ChunkTable table = chunk_table(schedule.desc, p);
    for (const Step& s : p.steps) {
      const int here = part_of[static_cast<std::size_t>(p.rank)];
      if (s.op != end || part_of[static_cast<std::size_t>(s.peer)] == here) continue;
      const Slice& what = end == Op::Send ? s.a : s.dst;
      const auto& row = what.space == Space::In ? table.in : what.space == Space::Out ? table.out : table.scratch;
      all[static_cast<std::size_t>(here)] += row[what.first].count;
    }
  }
  return all;
}

TEST_P(HierarchicalAlgorithmOn, MovesEveryByteToAnotherPartOnce) {
  const Layout& layout = GetParam();
  const int ranks = layout.ranks();
  const std::vector<int>& hosts = layout.levels.part_of.back();
  const int parts = 1 + *std::ranges::max_element(hosts);
  constexpr std::uint64_t kCount = 5040;
  const auto count_of = [&](Collective c, Op end) {
    CollectiveDesc desc = test::desc_of(c);
    desc.count = kCount;
    const HierarchicalAlgorithm how{layout.levels, "direct", "ring"};
    return crossing(Recipe(how).build_all(desc, test::in_place(PlacingKind::OutOfPlace, ranks)), hosts, end);
  };
  const auto summed = count_of(Collective::AllReduce, Op::Send);
  const auto gathered = count_of(Collective::AllGather, Op::Recv);
  const auto scattered = count_of(Collective::ReduceScatter, Op::Send);
  for (int p = 0; p < parts; ++p) {
    const auto at = static_cast<std::size_t>(p);
    const auto others = static_cast<std::uint64_t>(ranks - std::ranges::count(hosts, p));
    // Each part owns a share of every stripe: all others come once, and go once. Chunks differ by an element.
    EXPECT_NEAR(static_cast<double>(summed[at]), 2.0 * kCount * (parts - 1) / parts, 100) << "part " << p;
    EXPECT_EQ(gathered[at], others * kCount) << "part " << p;
    EXPECT_EQ(scattered[at], others * kCount) << "part " << p;
  }
}

/// Expects that each rank gets one message from each other part, with a block of each rank there.
void expect_one_message_from_each_part(const Layout& layout, Collective collective) {
  const int ranks = layout.ranks();
  const std::vector<int>& hosts = layout.levels.part_of.back();
  const CollectiveDesc desc = test::desc_of(collective);
  const Schedule schedule = Recipe(HierarchicalAlgorithm{layout.levels, "direct", "direct"})
                                .build_all(desc, test::in_place(PlacingKind::OutOfPlace, ranks));
  const int parts = 1 + *std::ranges::max_element(hosts);
  std::vector<std::vector<int>> from(static_cast<std::size_t>(ranks),
                                     std::vector<int>(static_cast<std::size_t>(parts)));
  for (const Program& p : schedule.programs) {
    EXPECT_TRUE(p.whole);
    EXPECT_EQ(p.sized, collective == Collective::AllToAllV);
    const int here = hosts[static_cast<std::size_t>(p.rank)];
    for (const Step& s : p.steps) {
      if (s.op != Op::Send || hosts[static_cast<std::size_t>(s.peer)] == here) continue;
      EXPECT_EQ(s.a.count, std::ranges::count(hosts, here)) << "a block of each rank of the part";
      ++from[static_cast<std::size_t>(s.peer)][static_cast<std::size_t>(here)];
    }
  }
  for (int r = 0; r < ranks; ++r) {
    for (int p = 0; p < parts; ++p) {
      EXPECT_EQ(from[static_cast<std::size_t>(r)][static_cast<std::size_t>(p)],
                p == hosts[static_cast<std::size_t>(r)] ? 0 : 1)
          << "rank " << r << " from part " << p;
    }
  }
}

TEST_P(HierarchicalAlgorithmOn, AllToAll_SendsOneMessageToEachRankOfOtherPartsThatItCarries) {
  for (const Collective c : {Collective::AllToAll, Collective::AllToAllV})
    expect_one_message_from_each_part(GetParam(), c);
}

INSTANTIATE_TEST_SUITE_P(Layouts, HierarchicalAlgorithmOn, ::testing::ValuesIn(layouts()),
                         [](const auto& p) { return p.param.name; });

CollectiveDesc ordered(Collective c, int root = 0) {
  CollectiveDesc desc = test::desc_of(c, ReduceOp::Sum, root);
  desc.dtype = DType::F32;
  desc.determinism = Determinism::Reproducible;
  return desc;
}

TEST(HierarchicalAlgorithm, KeepsTheCanonicalOrder_WhereHostsAreNodesOfTheTree) {
  const std::vector<Levels> nodes = {{{parts_of_sizes({2, 2})}},
                                     {{parts_of_sizes({4, 4, 4, 4})}},
                                     {{parts_of_sizes({4, 2})}},
                                     {{parts_of_sizes({2, 2, 2, 1})}},
                                     {{parts_of_sizes({8, 3})}},
                                     {{parts_of_sizes({2, 2, 2, 2}), parts_of_sizes({4, 4})}},
                                     {{parts_of_sizes({2, 2, 2, 2, 1}), parts_of_sizes({4, 4, 1})}}};
  for (const Levels& levels : nodes) {
    EXPECT_TRUE(levels.are_aligned_blocks());
    const int ranks = static_cast<int>(levels.part_of.front().size());
    for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce}) {
      for (const int root : test::roots_of(c, ranks)) {
        const CollectiveDesc desc = ordered(c, root);
        const auto all = hierarchical_algorithms(levels, desc);
        EXPECT_FALSE(all.empty()) << name_of(c);
        for (const HierarchicalAlgorithm& how : all) {
          for (const PlacingKind placing : {PlacingKind::OutOfPlace, PlacingKind::Mixed}) {
            const ScheduleVerdict verdict = verify(Recipe(how).build_all(desc, test::in_place(placing, ranks)));
            EXPECT_TRUE(verdict.ok) << name_of(c) << ' ' << how.inside << '/' << how.across << " on " << ranks
                                    << " ranks, root " << root << ": " << verdict.reason;
          }
        }
      }
    }
  }
}

TEST(HierarchicalAlgorithm, IsRefusedTheCanonicalOrder_WhereHostsAreNotNodesOfTheTree) {
  const std::vector<Levels> others = {
      {{parts_of_sizes({3, 5})}}, {{parts_of_sizes({2, 4})}}, {{parts_of_sizes({3, 3})}},
      {{parts_in_turns(8, 2)}},   {{{0, 0, 1, 1, 0, 0}}},     {{parts_of_sizes({2, 2, 2}), parts_of_sizes({2, 4})}}};
  for (const Levels& levels : others) {
    EXPECT_FALSE(levels.are_aligned_blocks());
    const int ranks = static_cast<int>(levels.part_of.front().size());
    const HierarchicalAlgorithm how{levels, "direct", "direct"};
    EXPECT_THAT(how.supports(ordered(Collective::AllReduce), ranks).reason, HasSubstr("aligned powers of two"));
    CollectiveDesc integers = ordered(Collective::AllReduce);
    integers.dtype = DType::I32;
    EXPECT_TRUE(how.supports(integers, ranks).ok);
    // The reason holds: what is refused is in fact another tree.
    const auto schedule =
        Recipe(how).build_all(ordered(Collective::AllReduce), test::in_place(PlacingKind::OutOfPlace, ranks));
    EXPECT_THAT(verify(schedule).reason, HasSubstr("is not summed up by the canonical tree"));
  }
}

TEST(HierarchicalAlgorithm, SaysWhyItIsNot) {
  const auto reason = [](const HierarchicalAlgorithm& how, Collective c) {
    return how.supports(test::desc_of(c), 4).reason;
  };
  const Levels two{{parts_of_sizes({2, 2})}};
  EXPECT_EQ(reason({two, "direct", "ring"}, Collective::AllReduce), "");
  EXPECT_THAT(reason({{{parts_of_sizes({4})}}, "direct", "ring"}, Collective::AllReduce), HasSubstr("equally near"));
  EXPECT_THAT(reason({{{parts_of_sizes({1, 1, 1, 1})}}, "direct", "ring"}, Collective::AllReduce),
              HasSubstr("equally near"));
  EXPECT_THAT(reason({two, "direct", "ring"}, Collective::Gather), HasSubstr("no composition for gather"));
  EXPECT_THAT(reason({two, "direct", "pairwise"}, Collective::AllToAll), HasSubstr("which pairwise does not"));
  EXPECT_THAT(reason({two, "direct", "pairwise"}, Collective::AllToAllV), HasSubstr("which pairwise does not"));
  EXPECT_THAT(reason({two, "direct", "direct"}, Collective::GatherV), HasSubstr("no composition for gather_v"));
  EXPECT_THAT(reason({two, "direct", "pairwise"}, Collective::AllReduce), HasSubstr("no pairwise for all_reduce"));
  EXPECT_THAT(reason({two, "halving_doubling", "ring"}, Collective::AllReduce), HasSubstr("runs of chunks"));
  EXPECT_THAT(reason({two, "direct", "double_binary_tree"}, Collective::Broadcast), HasSubstr("chunks of its own"));
}

TEST(HierarchicalAlgorithm, AsksAlgorithmsForTheRanksOfEachPart) {
  const CollectiveDesc gather = test::desc_of(Collective::AllGather);
  const Levels uneven{{parts_of_sizes({3, 5})}};
  const Levels even{{parts_of_sizes({4, 4})}};
  const Levels three{{parts_of_sizes({2, 2, 4})}};
  EXPECT_THAT((HierarchicalAlgorithm{even, "recursive_doubling", "ring"}.supports(gather, 8).reason),
              HasSubstr("moves runs of chunks"));
  EXPECT_EQ((HierarchicalAlgorithm{uneven, "recursive_doubling", "ring"}.supports(gather, 8).reason),
            "needs a power of two of ranks, not 3");
  EXPECT_THAT((HierarchicalAlgorithm{even, "direct", "recursive_doubling"}.supports(gather, 8).reason),
              HasSubstr("moves runs of chunks"));
  EXPECT_EQ((HierarchicalAlgorithm{three, "direct", "recursive_doubling"}.supports(gather, 8).reason),
            "needs a power of two of ranks, not 3");
}

TEST(Levels, WithoutIdleOnes_AreThoseThatPartRanks) {
  const Levels all{{parts_of_sizes({1, 1, 1, 1}), parts_of_sizes({2, 2}), parts_of_sizes({2, 2}), parts_of_sizes({4})}};
  EXPECT_EQ(all.without_idle(), (Levels{{parts_of_sizes({2, 2})}}));
}

}  // namespace
}  // namespace sinew
