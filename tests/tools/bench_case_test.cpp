#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/call/bus_factor.hpp>
#include <sinew/tools/bench/buffers/buffer_ring.hpp>
#include <sinew/tools/bench/cases/bench_case.hpp>
#include <sinew/tools/check/exact_rows.hpp>

namespace sinew::tools {
namespace {

TEST(BenchCase, ExpectsOfEachRankWhatTheOthersGave) {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kElements = 10;
  for (const BenchCase& c : all_cases()) {
    for (int place = 0; place < kRanks * kRanks; ++place) {
      const int rank = place % kRanks;
      const int root = place / kRanks;
      const RankData d = data_of(c, rank, kRanks, kElements, root);
      std::uint64_t expected = 0;
      for (const Segment& e : d.expected) {
        EXPECT_EQ(e.at, expected) << c.name;
        expected += e.count;
        if (e.source == check::kCombined) continue;
        const RankData giver = data_of(c, e.source, kRanks, kElements, root);
        ASSERT_EQ(giver.given.size(), 1u) << c.name;
        EXPECT_GE(e.first, giver.given[0].first) << c.name;
        EXPECT_LE(e.first + e.count, giver.given[0].first + giver.given[0].count) << c.name;
      }
      EXPECT_EQ(expected, d.out_elements) << c.name;
    }
  }
}

TEST(BenchCase, GivesTheRootWhatTheRootHas) {
  constexpr int kRanks = 4;
  for (int root = 0; root < kRanks; ++root) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const bool is_root = rank == root;
      const RankData broadcast = data_of(*find_case("broadcast"), rank, kRanks, 5, root);
      EXPECT_EQ(broadcast.given.size(), is_root ? 1u : 0u);
      EXPECT_EQ(broadcast.expected.at(0).source, root);
      EXPECT_EQ(data_of(*find_case("reduce"), rank, kRanks, 5, root).out_elements, is_root ? 5u : 0u);
      const RankData gather = data_of(*find_case("gather"), rank, kRanks, 5, root);
      EXPECT_EQ(gather.out_elements, is_root ? 20u : 0u);
      EXPECT_EQ(gather.in_place_at, is_root ? 5u * static_cast<unsigned>(root) : 0u);
      const RankData scatter = data_of(*find_case("scatter"), rank, kRanks, 5, root);
      EXPECT_EQ(scatter.in_elements, is_root ? 20u : 0u);
      EXPECT_EQ(scatter.in_place_at, is_root ? 5u * static_cast<unsigned>(root) : 0u);
      EXPECT_EQ(scatter.expected.at(0).source, root);
      EXPECT_EQ(scatter.expected.at(0).first, 5u * static_cast<unsigned>(rank));
    }
  }
}

TEST(BenchCase, SendsEveryBlockOfAnAllToAllOnce) {
  std::map<std::pair<int, std::uint64_t>, int> taken;
  for (int rank = 0; rank < 4; ++rank) {
    for (const Segment& e : data_of(*find_case("all_to_all"), rank, 4, 5).expected) ++taken[{e.source, e.first}];
  }
  EXPECT_EQ(taken.size(), 16u);
}

TEST(BenchCase, SkewsTheParts_AndEveryPairAgreesOnItsOwn) {
  EXPECT_EQ(skewed_counts(*find_case("all_gatherv"), 0, 4, 10), (std::vector<std::uint64_t>{4, 8, 12, 16}));
  EXPECT_EQ(skewed_counts(*find_case("all_gatherv"), 3, 4, 10), skewed_counts(*find_case("all_gatherv"), 0, 4, 10));
  const BenchCase& to_all = *find_case("all_to_allv");
  EXPECT_EQ(find_case("all_to_all_v"), &to_all) << "the library's name";
  EXPECT_EQ(find_case("allreduce"), find_case("all_reduce"));
  EXPECT_EQ(find_case("all-gather"), find_case("all_gather"));
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(skewed_counts(to_all, static_cast<int>(i), 5, 7)[j],
                skewed_counts(to_all, static_cast<int>(j), 5, 7)[i]);
    }
  }
}

TEST(BenchCase, CountsBytesOfTheLargerBuffer) {
  for (const BenchCase& c : all_cases()) {
    if (c.exercise == Exercise::Barrier) continue;
    const RankData d = data_of(c, 0, 4, 6);
    EXPECT_EQ(6 * unit_bytes(c, DType::F64, 4), 8 * std::max(d.in_elements, d.out_elements)) << c.name;
  }
}

TEST(BenchCase, HasTheBusFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(find_case("all_reduce")->collective, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(find_case("all_gather")->collective, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(find_case("broadcast")->collective, 4), 1);
}

TEST(BufferRing, GivesEveryBufferLinesOfItsOwn) {
  const RankData d = data_of(*find_case("all_reduce"), 0, 2, 2);
  const BufferRing ring(d, 4, false, 100, 1 << 20, ordinary_memory);
  ASSERT_EQ(ring.slots(), 100u);
  std::vector<std::uintptr_t> starts;
  for (std::size_t s = 0; s < ring.slots(); ++s) {
    EXPECT_EQ(ring.in(s).bytes, 8u);
    EXPECT_EQ(ring.out(s).bytes, 8u);
    starts.push_back(reinterpret_cast<std::uintptr_t>(ring.in(s).data));
    starts.push_back(reinterpret_cast<std::uintptr_t>(ring.out(s).data));
  }
  std::ranges::sort(starts);
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_GE(starts[i] - starts[i - 1], 128u);
  EXPECT_EQ(ring.in(100).data, ring.in(0).data);
}

TEST(BufferRing, LaysTheSmallerBufferIntoTheLarger_InPlace) {
  const BufferRing gather(data_of(*find_case("all_gather"), 2, 4, 10), 4, true, 8, 1 << 20, ordinary_memory);
  EXPECT_EQ(gather.in(3).data, gather.out(3).data + 80);
  EXPECT_EQ(gather.out(3).bytes, 160u);
  const BufferRing scatter(data_of(*find_case("reduce_scatter"), 1, 4, 10), 4, true, 8, 1 << 20, ordinary_memory);
  EXPECT_EQ(scatter.out(0).data, scatter.in(0).data + 40);
  const BufferRing reduce(data_of(*find_case("all_reduce"), 1, 4, 10), 4, true, 8, 1 << 20, ordinary_memory);
  EXPECT_EQ(reduce.out(5).data, reduce.in(5).data);
}

TEST(BufferRing, HasOneSlotAtLeast) {
  const BufferRing ring(data_of(*find_case("all_reduce"), 0, 2, 1 << 20), 4, false, 100, 1 << 20, ordinary_memory);
  EXPECT_EQ(ring.slots(), 1u);
}

}  // namespace
}  // namespace sinew::tools
