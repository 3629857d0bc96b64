#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/algorithms/algorithm.hpp>
#include <sinew/collectives/call/call_shape.hpp>
#include <sinew/collectives/execution/executable.hpp>
#include <sinew/collectives/schedule/chunk_table.hpp>
#include <sinew/collectives/schedule/frame.hpp>
#include <sinew/collectives/selection/recipe.hpp>
#include <sinew/core/error.hpp>
#include <support/schedules.hpp>

namespace sinew {
namespace {

using Extent = ChunkTable::Extent;
using Counts = std::vector<std::uint64_t>;

constexpr std::uint64_t kHuge = (std::uint64_t{1} << 33) + 7;  // elements: beyond what an int, or 32 bits, hold

std::uint64_t sum_of(const std::vector<Extent>& row) {
  return std::accumulate(row.begin(), row.end(), std::uint64_t{0}, [](auto s, const Extent& e) { return s + e.count; });
}

TEST(ChunkTable, CoversCountsBeyond32Bits_WithoutGaps) {
  const CollectiveDesc desc{.collective = Collective::AllReduce, .dtype = DType::F32, .count = kHuge};
  const ChunkTable table = chunk_table(desc, frame(desc, 0, 5, false, 5));
  EXPECT_EQ(sum_of(table.in), kHuge);
  for (std::size_t i = 1; i < table.in.size(); ++i)
    EXPECT_EQ(table.in[i].first, table.in[i - 1].first + table.in[i - 1].count);
  EXPECT_EQ(table.largest, (kHuge + 4) / 5);
}

TEST(ChunkTable, CutsAChunkBeyond32Bits_IntoSegmentsThatCoverIt) {
  const Extent chunk{kHuge, kHuge};
  constexpr std::uint32_t kSegments = 1u << 20;
  std::uint64_t next = kHuge;
  for (std::uint32_t s = 0; s < kSegments; ++s) {
    const Extent part = chunk.segment(s, kSegments);
    ASSERT_EQ(part.first, next);
    next += part.count;
  }
  EXPECT_EQ(next, 2 * kHuge);
}

TEST(ChunkTable, CutsAtMultiplesOfWhatIsCodedTogether) {
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{1008}, kHuge}) {
    const CollectiveDesc desc{
        .collective = Collective::AllReduce, .dtype = DType::F32, .codec = Codec::Int8, .count = count};
    const ChunkTable table = chunk_table(desc, frame(desc, 0, 5, false, 5));
    EXPECT_EQ(sum_of(table.in), count);
    for (const Extent& chunk : table.in) {
      EXPECT_TRUE(chunk.count == 0 || chunk.first % kScaledBlock == 0) << count;
      std::uint64_t next = chunk.first;
      for (std::uint32_t s = 0; s < 7; ++s) {
        const Extent piece = segment_of(chunk, s, 7, cut_unit(Codec::Int8));
        EXPECT_TRUE(piece.count == 0 || (piece.first == next && piece.first % kScaledBlock == 0)) << count;
        next += piece.count;
      }
      EXPECT_EQ(next, chunk.first + chunk.count);
    }
  }
}

/// Parts with displacements of their own are no run of memory.
TEST(VForms, MoveOneChunkPerStep) {
  const auto chunks = [](const Step& step) { return std::max({step.a.count, step.b.count, step.dst.count}); };
  int seen = 0;
  for (const Algorithm& a : all_algorithms()) {
    if (!is_v_form(a.collective)) continue;
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::PreMulSum}) {
        const Counts counts(static_cast<std::size_t>(ranks), 3);
        CollectiveDesc desc{.collective = a.collective, .dtype = DType::F32, .op = op};
        if (has_shared_counts(a.collective)) desc.counts = counts;
        if (!a.supports(desc, ranks).ok) continue;
        ++seen;
        for (int rank = 0; rank < ranks; ++rank) {
          const Program program = build_program(a, desc, rank, ranks, false);
          EXPECT_TRUE(std::ranges::all_of(program.steps, [&](const Step& step) { return chunks(step) <= 1; }))
              << a.name << " " << name_of(a.collective) << " on " << ranks;
        }
      }
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(ChunkTable, PlacesSharedPartsBeyond32Bits) {
  const Counts counts{kHuge, 0, 5};
  const Counts displacements{100, 7, 3 * kHuge};
  CollectiveDesc desc{.collective = Collective::AllGatherV, .dtype = DType::F64, .counts = counts};
  EXPECT_EQ(desc.bytes(3), 8 * (kHuge + 5));
  const ChunkTable packed = chunk_table(desc, frame(desc, 2, 3, false, 1));
  EXPECT_EQ(packed.out[2].first, kHuge);
  EXPECT_EQ(packed.out[2].count, 5u);
  EXPECT_EQ(packed.in[0].first, 0u);
  EXPECT_EQ(packed.in[0].count, 5u);
  desc.displacements = displacements;
  const ChunkTable torn = chunk_table(desc, frame(desc, 0, 3, false, 1));
  EXPECT_EQ(torn.out[2].first, 3 * kHuge);
  EXPECT_EQ(torn.out[0].first, 100u);
  EXPECT_EQ(torn.in[0].count, kHuge);
  desc.collective = Collective::ReduceScatterV;
  const ChunkTable scattered = chunk_table(desc, frame(desc, 2, 3, false, 1));
  EXPECT_EQ(scattered.in[2].first, 3 * kHuge);
  EXPECT_EQ(scattered.out[0].first, 0u);
}

TEST(ChunkTable, LaysOutLocalParts_AndScratchAsLongAsTheChunksItStandsFor) {
  const Counts gives{1, 2, kHuge};
  const Counts takes{4, 5, kHuge + 1};
  const CollectiveDesc desc{.collective = Collective::AllToAllV};
  const Algorithm* pairwise = find_algorithm(Collective::AllToAllV, "pairwise");
  ASSERT_NE(pairwise, nullptr);
  const Program program = build_program(*pairwise, desc, 1, 3, true);
  ChunkTable table;
  lay_out({gives}, table.in);
  lay_out({takes}, table.out);
  lay_out_scratch(find_scratch_models(program), table);
  EXPECT_EQ(table.in[2].first, 3u);
  EXPECT_EQ(table.out[2].first, 9u);
  ASSERT_EQ(table.scratch.size(), 2u);
  // Rank 1 hears of rank 0 first, then of rank 2. What goes both ways in place is equally long.
  Counts lengths{table.scratch[0].count, table.scratch[1].count};
  EXPECT_EQ(table.scratch[1].first, table.scratch[0].count);
  std::ranges::sort(lengths);
  EXPECT_EQ(lengths, (Counts{takes[0], takes[2]}));
}

TEST(CallShape, CountsBytesBeyond32Bits) {
  const CollectiveDesc gather{.collective = Collective::Gather, .dtype = DType::F64, .root = 2, .count = kHuge};
  const CallShape root = call_shape(gather, 2, 3);
  EXPECT_EQ(root.in, 8 * kHuge);
  EXPECT_EQ(root.out, 24 * kHuge);
  EXPECT_EQ(root.in_at, 16 * kHuge);
  EXPECT_EQ(call_shape(gather, 1, 3).out, std::nullopt);
}

TEST(CallShape, RefusesSizesThatOverflow) {
  CollectiveDesc desc{.collective = Collective::AllGather, .dtype = DType::F64, .count = std::uint64_t{1} << 60};
  EXPECT_THROW(call_shape(desc, 0, 8), Error);
  const Counts counts{std::uint64_t{1} << 59, std::uint64_t{1} << 59};
  desc = {.collective = Collective::ReduceScatterV, .dtype = DType::F64, .counts = counts};
  EXPECT_THROW(call_shape(desc, 0, 2), Error);
}

/// Where counts are local a rank can only hold its own pairs' chunks.
TEST(LocalCounts, HaveAlgorithmsThatPassNothingOn_OnAnyNumberOfRanks) {
  int seen = 0;
  for (const Algorithm& a : all_algorithms()) {
    if (!has_local_counts(a.collective)) continue;
    for (const int ranks : {1, 2, 3, 4, 6, 7, 9, 16, 17, 33}) {
      for (const int root : test::roots_of(a.collective, ranks)) {
        const CollectiveDesc desc{.collective = a.collective, .root = root};
        if (!a.supports(desc, ranks).ok) continue;
        for (int rank = 0; rank < ranks; ++rank) {
          const Program p = build_program(a, desc, rank, ranks, rank % 2 == 0);
          for (const std::uint32_t c : p.scratch_class) {
            EXPECT_GT(std::ranges::count(p.in_class, c) + std::ranges::count(p.out_class, c), 0)
                << a.name << " of " << name_of(a.collective) << " on " << ranks << " ranks, rank " << rank;
          }
          ++seen;
        }
      }
    }
  }
  EXPECT_GT(seen, 100);
  EXPECT_TRUE(find_algorithm(Collective::GatherV, "direct")->supports({.collective = Collective::GatherV}, 4).ok);
}

/// Runs of several chunks exist in memory only where no displacement tears them apart.
TEST(VForms, TouchOneChunkPerStep) {
  test::for_each_schedule(8, [](const Algorithm& a, const CollectiveDesc& desc, test::PlacingKind placing) {
    if (!is_v_form(a.collective)) return;
    const Schedule schedule = Recipe(a).build_all(desc, test::in_place(placing, 8));
    for (const Program& p : schedule.programs) {
      for (const Step& s : p.steps) EXPECT_LE(std::max({s.a.count, s.b.count, s.dst.count}), 1u) << a.name;
    }
  });
}

TEST(Fingerprint, TellsSharedCountsApart_AndNothingOfLocalOnes) {
  const Counts even{2, 2, 2};
  const Counts uneven{1, 2, 3};
  CollectiveDesc a{.collective = Collective::AllGatherV, .counts = even};
  CollectiveDesc b{.collective = Collective::AllGatherV, .counts = uneven};
  EXPECT_NE(fingerprint_of(a), fingerprint_of(b));
  b.counts = even;
  b.displacements = uneven;
  EXPECT_EQ(fingerprint_of(a), fingerprint_of(b));
  a = {.collective = Collective::AllToAllV, .count = 5};
  b = {.collective = Collective::AllToAllV, .count = 6};
  EXPECT_EQ(fingerprint_of(a), fingerprint_of(b));
  b.largest_bytes = 1 << 20;
  EXPECT_NE(fingerprint_of(a), fingerprint_of(b));
}

}  // namespace
}  // namespace sinew
