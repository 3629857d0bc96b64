#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/call/determinism.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/leaf_blocks.hpp>

namespace sinew {
namespace {

using ::testing::HasSubstr;

CollectiveDesc sum_of(DType dtype, ReduceOp op = ReduceOp::Sum) {
  return {.collective = Collective::AllReduce, .dtype = dtype, .op = op, .determinism = Determinism::LayoutInvariant};
}

TEST(Determinism, HasNamesThatAreReadBack) {
  for (const Determinism d : {Determinism::Fast, Determinism::Reproducible, Determinism::LayoutInvariant})
    EXPECT_EQ(determinism_from_name(name_of(d)), d);
  EXPECT_EQ(name_of(Determinism::LayoutInvariant), "layout_invariant");
  EXPECT_EQ(determinism_from_name("bitwise"), std::nullopt);
  EXPECT_EQ(determinism_from_name("layout-invariant"), Determinism::LayoutInvariant);
}

TEST(Determinism, KnowsWhereOrderShows) {
  EXPECT_TRUE(order_shows(sum_of(DType::F32)));
  EXPECT_TRUE(order_shows(sum_of(DType::BF16, ReduceOp::Product)));
  EXPECT_TRUE(order_shows(sum_of(DType::I32, ReduceOp::User)));
  EXPECT_FALSE(order_shows(sum_of(DType::I32)));
  EXPECT_FALSE(order_shows(sum_of(DType::U8, ReduceOp::Average)));
  EXPECT_FALSE(order_shows(sum_of(DType::F64, ReduceOp::Max)));
  EXPECT_FALSE(order_shows({.collective = Collective::AllGather, .dtype = DType::F32}));
  EXPECT_TRUE(needs_canonical_order(sum_of(DType::F32), 3));
  EXPECT_FALSE(needs_canonical_order(sum_of(DType::F32), 2)) << "a + b is b + a";
  CollectiveDesc fast = sum_of(DType::F32);
  fast.determinism = Determinism::Fast;
  EXPECT_FALSE(needs_canonical_order(fast, 3));
}

TEST(LeafBlocks, FitPowersOfTwoOfRanks) {
  for (int ranks = 1; ranks <= 130; ++ranks) {
    const bool fits = ranks == 1 || ranks == 2 || ranks == 4 || ranks == 8 || ranks == 16 || ranks == 32 || ranks == 64;
    EXPECT_EQ(fits_leaf_blocks(sum_of(DType::F32), ranks).ok, fits) << ranks;
    EXPECT_TRUE(fits_leaf_blocks(sum_of(DType::I64), ranks).ok) << ranks;
  }
  EXPECT_THAT(fits_leaf_blocks(sum_of(DType::F32), 3).reason,
              HasSubstr("3 ranks cannot hold aligned ranges of the 64 leaf blocks"));
  EXPECT_THAT(fits_leaf_blocks(sum_of(DType::F32, ReduceOp::Average), 4).reason, HasSubstr("avg"));
  EXPECT_FALSE(fits_leaf_blocks(sum_of(DType::F32, ReduceOp::PreMulSum), 1).ok);
  EXPECT_FALSE(fits_leaf_blocks(sum_of(DType::I32, ReduceOp::Average), 2).ok) << "divides by the ranks";
  CollectiveDesc reproducible = sum_of(DType::F32, ReduceOp::Average);
  reproducible.determinism = Determinism::Reproducible;
  EXPECT_TRUE(fits_leaf_blocks(reproducible, 3).ok);
}

/// ((a b)(c d)) of a rank with four blocks is what two ranks with two make together.
TEST(LeafBlocks, AreSummedAlike_HoweverManyAtATime) {
  const std::vector<float> leaves{1e8F, 1.0F, -1e8F, 1.0F, 3.0F, 1e7F, 0.25F, -1e7F};  // four blocks of two
  const auto in = [](const std::vector<float>& v, std::size_t first, std::size_t count) {
    return ConstBuffer{reinterpret_cast<const std::byte*>(v.data() + first), count * sizeof(float)};
  };
  const auto out = [](std::vector<float>& v, std::size_t first, std::size_t count) {
    return Buffer{reinterpret_cast<std::byte*>(v.data() + first), count * sizeof(float)};
  };
  std::vector<float> whole(2), halves(4), sum(2), in_place = leaves;
  sum_leaf_blocks(in(leaves, 0, 8), out(whole, 0, 2), DType::F32, 4);
  sum_leaf_blocks(in(leaves, 0, 4), out(halves, 0, 2), DType::F32, 2);
  sum_leaf_blocks(in(leaves, 4, 4), out(halves, 2, 2), DType::F32, 2);
  sum_leaf_blocks(in(halves, 0, 4), out(sum, 0, 2), DType::F32, 2);
  EXPECT_EQ(whole, sum);
  EXPECT_EQ(whole, (std::vector<float>{(1e8F + -1e8F) + (3.0F + 0.25F), (1.0F + 1.0F) + (1e7F + -1e7F)}));
  sum_leaf_blocks(in(in_place, 0, 8), out(in_place, 2, 2), DType::F32, 4);
  EXPECT_EQ(std::vector<float>(in_place.begin() + 2, in_place.begin() + 4), whole);
}

TEST(LeafBlocks, RefuseWhatIsNoTree_NamingIt) {
  std::byte data[256];
  const auto why = [&](std::size_t in, std::size_t out, int blocks, ReduceOp op = ReduceOp::Sum,
                       DType dtype = DType::F32) -> std::string {
    try {
      sum_leaf_blocks({data, in}, {data, out}, dtype, blocks, op);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      return e.what();
    }
    return "no complaint";
  };
  EXPECT_THAT(why(36, 12, 3), HasSubstr("3 blocks, expected a power of two, 64 at most"));
  EXPECT_THAT(why(128, 1, 128), HasSubstr("128 blocks"));
  EXPECT_THAT(why(32, 12, 4), HasSubstr("in has 32 bytes, expected 48: 4 blocks of 12"));
  EXPECT_THAT(why(20, 10, 2), HasSubstr("out has 10 bytes, not a multiple of f32's 4"));
  EXPECT_THAT(why(32, 16, 2, ReduceOp::Average), HasSubstr("operator avg"));
  EXPECT_THAT(why(32, 16, 2, ReduceOp::BitXor), HasSubstr("bxor on f32"));
}

}  // namespace
}  // namespace sinew
