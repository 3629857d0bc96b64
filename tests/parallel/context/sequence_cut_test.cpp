#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sinew/parallel/context/sequence_cut.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;

TEST(SequenceCut, GivesEveryPositionToOneRank_InOrder) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::int64_t length : {0, 1, 2, 7, 15, 16, 17, 64, 101}) {
      for (const bool zig_zag : {false, true}) {
        const SequenceCut cut = zig_zag ? SequenceCut::zig_zag(length, ranks) : SequenceCut::contiguous(length, ranks);
        std::multiset<std::int64_t> all;
        std::int64_t pairs = 0;
        for (int r = 0; r < ranks; ++r) {
          const auto mine = cut.positions(r);
          EXPECT_EQ(std::ssize(mine), cut.tokens(r));
          EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
          all.insert(mine.begin(), mine.end());
          std::int64_t seen = 0;
          for (const std::int64_t p : mine) seen += p + 1;
          EXPECT_EQ(cut.pairs(r, AttentionMask(true)), seen);
          EXPECT_EQ(cut.pairs(r, AttentionMask(false)), std::ssize(mine) * length);
          pairs += seen;
        }
        EXPECT_EQ(std::ssize(all), length);
        EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), all.size());
        EXPECT_EQ(pairs, length * (length + 1) / 2);
      }
    }
  }
}

TEST(SequenceCut, SharesWorkEqually_InZigZag) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const SequenceCut zig_zag = SequenceCut::zig_zag(4096, ranks), plain = SequenceCut::contiguous(4096, ranks);
    const double mean = 4096.0 * 4097 / 2 / ranks;
    for (int r = 0; r < ranks; ++r)
      EXPECT_NEAR(static_cast<double>(zig_zag.pairs(r, AttentionMask(true))) / mean, 1, 0.02);
    EXPECT_GT(static_cast<double>(plain.pairs(ranks - 1, AttentionMask(true))) / mean, 1.4)
        << "the other cut is what it mends";
  }
}

TEST(SequenceCut, SaysWhatCannotBeCut) {
  EXPECT_NE(complaint([] { SequenceCut::zig_zag(-1, 2); }).find("sequence of -1 positions on 2"), std::string::npos);
  EXPECT_NE(complaint([] { SequenceCut::contiguous(4, 0); }).find("on 0 ranks"), std::string::npos);
}

}  // namespace
}  // namespace sinew::parallel
