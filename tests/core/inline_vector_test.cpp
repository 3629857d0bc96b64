#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/base/inline_vector.hpp>

namespace sinew {
namespace {

using ::testing::ElementsAre;

TEST(InlineVector, HoldsWhatWasPushed_UpToItsCapacity) {
  InlineVector<int, 3> v;
  EXPECT_TRUE(v.empty());
  v.push_back(1);
  v.push_back(2);
  EXPECT_FALSE(v.full());
  v.push_back(3);
  EXPECT_TRUE(v.full());
  EXPECT_EQ(v.size(), v.capacity());
  EXPECT_EQ(v.back(), 3);
  EXPECT_THAT(std::vector<int>(v.begin(), v.end()), ElementsAre(1, 2, 3));
}

TEST(InlineVector, IsAValue_WhenCopied) {
  InlineVector<int, 4> a = {5, 6};
  InlineVector<int, 4> b = a;
  b[0] = 7;
  EXPECT_EQ(a[0], 5);
  a.clear();
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(b.size(), 2u);
}

}  // namespace
}  // namespace sinew
