#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/collectives/selection/selector.hpp>

namespace sinew {
namespace {

std::unique_ptr<Executable> made(const CollectiveDesc& desc, std::string_view name, int rank, int ranks,
                                 std::uint64_t scratch) {
  const Algorithm& a = *find_algorithm(desc.collective, name);
  Segmentation segmentation = kSegmentation;
  segmentation.scratch_bytes = scratch;
  return Executable::make(desc, build_program(a, desc, rank, ranks, false), segmentation,
                          [](int) -> Endpoint* { return nullptr; });
}

TEST(Segmentation, MakesPiecesOfAtMostASegment_AndSeveralAtATime) {
  const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 16 << 20};
  const auto e = made(desc, "ring", 0, 8, 0);
  EXPECT_EQ(e->segments, 16U);  // of a chunk of 8 MiB
  EXPECT_EQ(e->depth, kSegmentation.depth);
}

TEST(Segmentation, HoldsNoMoreThanAllowed_WhateverTheSize) {
  for (const std::uint64_t count : {std::uint64_t{1000}, std::uint64_t{100'000}, std::uint64_t{16} << 20}) {
    const CollectiveDesc desc{.collective = Collective::Reduce, .dtype = DType::F32, .count = count};
    const std::uint64_t scratch = 7 * desc.bytes(8);
    for (int rank = 0; rank < 8; ++rank) {
      const auto e = made(desc, "direct", rank, 8, scratch);
      EXPECT_LE(e->depth * e->scratch_bytes, kScratchBytes + 1024) << "rank " << rank << ", count " << count;
      EXPECT_EQ(e->segments, made(desc, "direct", 0, 8, scratch)->segments);
      EXPECT_EQ(e->depth, made(desc, "direct", 0, 8, scratch)->depth);
    }
  }
}

/// 64 pieces of 512 KiB, each with three codes of 260 bytes for 256 elements.
TEST(Segmentation, KeepsSegmentsAndDepth_WhereMessagesAreCoded) {
  const CollectiveDesc desc{
      .collective = Collective::AllReduce, .dtype = DType::F32, .codec = Codec::Int8, .count = 16 << 20};
  Segmentation segmentation = kSegmentation;
  segmentation.scratch_bytes = std::uint64_t{3} * (8 << 20) / 256 * 260;
  const auto e = Executable::make(desc, Recipe(*find_algorithm(desc.collective, "ring")).build(desc, 0, 2, false),
                                  segmentation, [](int) -> Endpoint* { return nullptr; });
  EXPECT_EQ(e->segments, 64U);
  EXPECT_EQ(e->depth, kSegmentation.depth);
  EXPECT_LE(e->depth * e->scratch_bytes, kCodedScratchBytes);
}

/// 400 Gbit/s for 5 us is 250 kB, of which 64 times are 16 MB; 10 Gbit/s for 30 us, 37.5 kB and 2.4 MB.
TEST(Segmentation, HoldsAsMuchAsKeepsALinkBusy_WithinBounds) {
  const auto held = [](double bytes_per_s, double latency) {
    CostCurve link{.latency_s = latency};
    link.knots.push_back({1 << 20, bytes_per_s});
    return scratch_to_fill(link);
  };
  EXPECT_EQ(scratch_to_fill({.latency_s = 1}), kScratchBytes) << "nobody knows the rate";
  EXPECT_EQ(held(125e6, 50e-6), kScratchBytes) << "1 Gbit/s";
  EXPECT_EQ(held(1.25e9, 30e-6), 2'400'000U);
  EXPECT_EQ(held(50e9, 5e-6), 16'000'000U);
  EXPECT_EQ(held(1e12, 1), 16U << 20);
  EXPECT_EQ(held(std::numeric_limits<double>::quiet_NaN(), 1), kScratchBytes);
}

TEST(Segmentation, TakesLongerPieces_WhereMoreMayBeHeld) {
  const CollectiveDesc desc{.collective = Collective::Reduce, .dtype = DType::F32, .count = 16 << 20};
  Segmentation segmentation = kSegmentation;
  segmentation.scratch_bytes = 7 * desc.bytes(8);
  const auto segments = [&](std::uint64_t most) {
    segmentation.most_scratch = most;
    return segments_of(segmentation, desc.bytes(8), Codec::None).count;
  };
  EXPECT_EQ(segments(512 << 10), 1792U);  // two at a time of 7 x 64 MiB
  EXPECT_EQ(segments(4 << 20), 224U);
  EXPECT_EQ(segments(std::uint64_t{1} << 40), 128U) << "pieces of 512 KiB, as where nothing is held";
}

TEST(Segmentation, MakesNoPieceTooShortToBeWorthItsMessages) {
  const CollectiveDesc desc{.collective = Collective::Reduce, .dtype = DType::F32, .count = 1 << 20};
  const auto e = made(desc, "direct", 0, 64, 63 * desc.bytes(64));
  EXPECT_EQ(e->segments, 128U);  // of 32 KiB
  EXPECT_EQ(e->depth, 1U);
}

TEST(Segmentation, LeavesWholeWhatMovesRunsOfChunks) {
  const CollectiveDesc desc{.collective = Collective::Reduce, .dtype = DType::F32, .count = 16 << 20};
  const auto e = made(desc, "halving_doubling", 1, 8, desc.bytes(8) / 2);
  EXPECT_EQ(e->segments, 1U);
  EXPECT_EQ(e->depth, 1U);
}

}  // namespace
}  // namespace sinew
