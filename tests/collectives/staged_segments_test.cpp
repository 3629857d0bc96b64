#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/staging/segments.hpp>

namespace sinew {
namespace {

using Counts = std::vector<std::uint64_t>;

constexpr std::uint64_t kPiece = kStagedSegmentBytes;

TEST(StagedElements, AreSharedByThePartsThatHaveMore) {
  EXPECT_EQ(staged_elements({}, 1), StagedSegments::kWhole);
  EXPECT_EQ(staged_elements(Counts{0, kPiece, 0}, 1), StagedSegments::kWhole);
  EXPECT_EQ(staged_elements(Counts{kPiece + 1}, 1), kPiece);
  EXPECT_EQ(staged_elements(Counts{kPiece, 100}, 1), kPiece - 100);
  EXPECT_EQ(staged_elements(Counts{kPiece, 7, kPiece}, 1), (kPiece - 7) / 2);
  EXPECT_EQ(staged_elements(Counts{kPiece, kPiece}, 8), kPiece / 16);
}

TEST(StagedElements, AreOneAtLeast) {
  EXPECT_EQ(staged_elements(Counts(kPiece, 2), 8), 1U);
  EXPECT_EQ(staged_elements({UINT64_MAX, UINT64_MAX}, 1), kPiece / 2);
}

/// Every element of every part is in exactly one segment, and no segment is longer than allowed.
TEST(StagedSegments, GivesEachElementToOneSegment) {
  for (const Counts& counts : {Counts{0, 0}, Counts{1, 0, 5}, Counts{3'000'001, 17, 0, 2'500'000}, Counts{kPiece}}) {
    const std::uint64_t longest = std::ranges::max(counts);
    const StagedSegments segments = StagedSegments::of(staged_elements(counts, 1), longest);
    Counts seen(counts.size());
    for (std::uint64_t k = 0; k < segments.count; ++k) {
      std::uint64_t bytes = 0;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto [first, count] = segments.segment(counts[i], k);
        EXPECT_EQ(first, seen[i]);
        seen[i] += count;
        bytes += count;
      }
      EXPECT_LE(bytes, kPiece);
      EXPECT_TRUE(bytes > 0 || longest == 0);
    }
    EXPECT_EQ(seen, counts);
  }
}

TEST(StagedSegments, KeepsOneSegment_WhereThereIsNothing) { EXPECT_EQ(StagedSegments::of(1, 0).count, 1U); }

TEST(StagedParts, AreWhatARankBrings) {
  const auto counts_of = [](const StagedParts::Row& row) {
    Counts counts;
    for (const auto& part : row) counts.push_back(part.count);
    return counts;
  };
  const Counts counts{4, 0, 6};
  const Counts displacements{10, 0, 2};
  const StagedParts gathered =
      staged_parts({.collective = Collective::AllGatherV, .counts = counts, .displacements = displacements}, 2, 3);
  EXPECT_EQ(counts_of(gathered.in), Counts{6});
  EXPECT_EQ(counts_of(gathered.out), counts);
  EXPECT_EQ(gathered.out[2].first, 2U);
  const StagedParts scattered = staged_parts({.collective = Collective::ReduceScatterV, .counts = counts}, 0, 3);
  EXPECT_EQ(counts_of(scattered.in), counts);
  EXPECT_EQ(scattered.in[2].first, 4U);
  EXPECT_EQ(counts_of(scattered.out), Counts{4});
  const CollectiveDesc gather{.collective = Collective::Gather, .root = 1, .count = 5};
  EXPECT_EQ(counts_of(staged_parts(gather, 0, 3).out), Counts{});
  EXPECT_EQ(counts_of(staged_parts(gather, 1, 3).out), (Counts{5, 5, 5}));
  const CollectiveDesc scatter{.collective = Collective::Scatter, .root = 1, .count = 5};
  EXPECT_EQ(counts_of(staged_parts(scatter, 2, 3).in), Counts{});
  EXPECT_EQ(counts_of(staged_parts(scatter, 2, 3).out), Counts{5});
}

struct Copied {
  std::uint64_t first, pitch, count, rows, packed;
  bool operator==(const Copied&) const = default;
};

std::vector<Copied> rows_of(const StagedParts::Row& parts, const StagedSegments& segments, std::uint64_t k) {
  std::vector<Copied> rows;
  for_each_row(parts, segments, k, [&](auto... of) { rows.push_back({of...}); });
  return rows;
}

TEST(StagedRows, JoinPartsAtOneDistance) {
  const StagedParts::Row equal{{0, 100}, {100, 100}, {200, 100}};
  EXPECT_EQ(rows_of(equal, {40, 3}, 1), (std::vector<Copied>{{40, 100, 40, 3, 0}}));
  EXPECT_EQ(rows_of(equal, {40, 3}, 2), (std::vector<Copied>{{80, 100, 20, 3, 0}}));
}

TEST(StagedRows, KeepOthersApart) {
  const StagedParts::Row torn{{50, 10}, {0, 0}, {30, 10}, {0, 20}, {0, 20}};
  EXPECT_EQ(rows_of(torn, {15, 2}, 0),
            (std::vector<Copied>{{50, 10, 10, 1, 0}, {30, 10, 10, 1, 10}, {0, 15, 15, 1, 20}, {0, 15, 15, 1, 35}}));
  EXPECT_EQ(rows_of(torn, {15, 2}, 1), (std::vector<Copied>{{15, 5, 5, 1, 0}, {15, 5, 5, 1, 5}}));
}

}  // namespace
}  // namespace sinew
