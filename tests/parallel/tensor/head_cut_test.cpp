#include <set>

#include <gtest/gtest.h>

#include <sinew/parallel/tensor/head_cut.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;

TEST(HeadCut, GivesEveryHeadToOneRank_WithTheKeysAndValuesItLooksAt) {
  for (std::int64_t heads = 1; heads <= 12; ++heads) {
    for (std::int64_t shared = 1; shared <= heads; ++shared) {
      if (heads % shared != 0) continue;
      for (int ranks = 1; ranks <= 8; ++ranks) {
        std::multiset<std::int64_t> held;
        std::int64_t next = 0;
        const bool cut = cut_heads(heads, shared, 0, ranks).key_values_cut;
        for (int r = 0; r < ranks; ++r) {
          const HeadCut mine = cut_heads(heads, shared, r, ranks);
          EXPECT_EQ(mine.key_values_cut, cut) << "all ranks alike";
          EXPECT_EQ(mine.queries.first, next);
          next = mine.queries.last;
          std::set<std::int64_t> looked_at;
          for (std::int64_t q = mine.queries.first; q < mine.queries.last; ++q) {
            const std::int64_t of = mine.key_value_of(q, heads / shared);
            EXPECT_EQ(of + mine.key_values.first, q * shared / heads);
            looked_at.insert(of);
          }
          EXPECT_EQ(std::ssize(looked_at), mine.key_values.count()) << "none that nobody looks at";
          for (std::int64_t k = mine.key_values.first; k < mine.key_values.last; ++k) held.insert(k);
        }
        EXPECT_EQ(next, heads);
        const std::set<std::int64_t> different(held.begin(), held.end());
        EXPECT_EQ(std::ssize(different), shared);
        EXPECT_EQ(cut, held.size() == different.size()) << heads << " " << shared << " " << ranks;
      }
    }
  }
}

TEST(HeadCut, SaysWhatDoesNotDivide) {
  EXPECT_EQ(complaint([] { static_cast<void>(cut_heads(8, 3, 0, 2)); }),
            "attention: 3 heads of keys and values do not divide 8 heads, expected 2");
  EXPECT_NE(complaint([] { static_cast<void>(cut_heads(0, 1, 0, 1)); }).find("0 heads"), std::string::npos);
  EXPECT_NE(complaint([] { static_cast<void>(cut_heads(4, 4, 2, 2)); }).find("rank 2 of 2"), std::string::npos);
}

}  // namespace
}  // namespace sinew::parallel
