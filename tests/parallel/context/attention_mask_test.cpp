#include <gtest/gtest.h>

#include <sinew/parallel/context/attention_mask.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;

TEST(AttentionMask, ShowsAQueryItsDocument) {
  const AttentionMask causal(true, {3, 7}), full(false, {3, 7});
  EXPECT_EQ(causal.seen(0), (Rows{0, 1}));
  EXPECT_EQ(causal.seen(3), (Rows{3, 4}));
  EXPECT_EQ(causal.seen(6), (Rows{3, 7}));
  EXPECT_EQ(full.seen(2), (Rows{0, 3}));
  EXPECT_EQ(full.seen(6), (Rows{3, 7}));
  EXPECT_EQ(full.seen(7).first, 7);
  EXPECT_EQ(causal.pairs({0, 10}, 10), 3 * 4 / 2 + 4 * 5 / 2 + 3 * 4 / 2);
  EXPECT_EQ(full.pairs({0, 10}, 10), 3 * 3 + 4 * 4 + 3 * 3);
}

TEST(AttentionMask, RefusesDocumentsOutOfOrder) {
  EXPECT_EQ(complaint([] {
              AttentionMask(true, {4, 4});
            }),
            "documents that begin at 4, 4: expected positions from 0 on that ascend");
  EXPECT_EQ(complaint([] {
              AttentionMask(true, {-1, 4});
            }),
            "documents that begin at -1, 4: expected positions from 0 on that ascend");
}

}  // namespace
}  // namespace sinew::parallel
