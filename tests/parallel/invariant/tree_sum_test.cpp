#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/invariant/leaf_rows.hpp>
#include <sinew/parallel/invariant/leaves.hpp>
#include <sinew/parallel/invariant/tree_sum.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using ::testing::HasSubstr;
using Vector = std::vector<float>;

/// Of which no two orders of addition are likely to have one sum.
Vector leaf_values(std::int64_t leaf, std::size_t elements) {
  const KeyedRandom random(7, "leaves");
  Vector v(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto number = static_cast<std::uint64_t>(leaf) * 64 + i;
    v[i] = static_cast<float>(random.normal(number) * std::exp(random.normal(number + 1000000)));
  }
  return v;
}

Vector plus(const Vector& a, const Vector& b) {
  Vector sum(a.size());
  std::ranges::transform(a, b, sum.begin(), std::plus<>());
  return sum;
}

/// The tree by its definition.
Vector tree_of(std::int64_t first, std::int64_t leaves, std::size_t elements) {
  if (leaves == 1) return leaf_values(first, elements);
  return plus(tree_of(first, leaves / 2, elements), tree_of(first + leaves / 2, leaves / 2, elements));
}

/// Orders of arrival: ascending, descending, from both ends, shuffled.
std::vector<std::vector<std::int64_t>> orders(std::int64_t leaves) {
  std::vector<std::int64_t> up, ends;
  for (std::int64_t i = 0; i < leaves; ++i) up.push_back(i), ends.push_back(i % 2 == 0 ? i / 2 : leaves - 1 - i / 2);
  std::vector<std::vector<std::int64_t>> all{up, {up.rbegin(), up.rend()}, ends};
  const KeyedRandom random(9, "orders");
  for (std::uint64_t n = 0; n < 20; ++n) {
    all.push_back(up);
    for (std::size_t i = up.size(); i-- > 1;)
      std::swap(all.back()[i], all.back()[random.below(100 * n + i, static_cast<std::uint64_t>(i) + 1)]);
  }
  return all;
}

TEST(TreeSum, IsTheTree_InWhateverOrderLeavesCome) {
  for (const std::int64_t leaves : {1, 2, 4, 8, 32}) {
    const Vector expected = tree_of(0, leaves, 5);
    TreeSum<float> tree(leaves, 5);
    for (const auto& order : orders(leaves)) {
      for (const std::int64_t leaf : order) {
        EXPECT_FALSE(tree.is_complete());
        tree.add(leaf, leaf_values(leaf, 5));
      }
      ASSERT_TRUE(tree.is_complete());
      EXPECT_EQ(tree.take(), expected);
    }
  }
}

TEST(TreeSum, OfAPartIsANodeOfTheWhole) {
  constexpr std::int64_t kLeaves = 16;
  const Vector whole = tree_of(0, kLeaves, 3);
  for (const std::int64_t parts : {2, 4, 8, 16}) {
    TreeSum<float> above(parts, 3);
    for (std::int64_t part = 0; part < parts; ++part) {
      TreeSum<float> own(kLeaves / parts, 3);
      for (std::int64_t i = kLeaves / parts; i-- > 0;) own.add(i, leaf_values(part * (kLeaves / parts) + i, 3));
      above.add(part, own.take());
    }
    EXPECT_EQ(above.take(), whole);
  }
}

TEST(TreeSum, ShowsTwoLeavesInEachOthersPlace) {
  TreeSum<float> tree(4, 8);
  for (std::int64_t leaf = 0; leaf < 4; ++leaf) tree.add(leaf, leaf_values(leaf == 1 ? 2 : leaf == 2 ? 1 : leaf, 8));
  EXPECT_NE(tree.take(), tree_of(0, 4, 8));
}

TEST(TreeSum, HoldsAsManyVectorsAsItsHeight_WhereTheyComeInOrder) {
  TreeSum<float> tree(64, 4);
  std::size_t most = 0;
  for (std::int64_t leaf = 0; leaf < 64; ++leaf) {
    Vector room = tree.room();
    room = leaf_values(leaf, 4);
    tree.add(leaf, std::move(room));
    most = std::max(most, tree.held_bytes());
  }
  EXPECT_LE(most, 7 * 4 * sizeof(float));
}

TEST(TreeSum, SaysWhatDoesNotFit) {
  EXPECT_THAT(complaint([] { TreeSum<float>(6, 1); }), HasSubstr("6 leaves, expected a power of two"));
  TreeSum<float> tree(4, 2);
  tree.add(3, {1, 2});
  EXPECT_THAT(complaint([&] { tree.add(4, {1, 2}); }), HasSubstr("leaf 4, expected 0 to 3"));
  EXPECT_THAT(complaint([&] { tree.add(0, {1}); }), HasSubstr("1 elements, expected 2"));
  EXPECT_THAT(complaint([&] { tree.add(3, {1, 2}); }), HasSubstr("leaf 3 has come already"));
  tree.add(2, {1, 2});
  EXPECT_THAT(complaint([&] { tree.add(3, {1, 2}); }), HasSubstr("leaf 3 has come already"));
  EXPECT_THAT(complaint([&] { static_cast<void>(tree.take()); }), HasSubstr("2 of 4 leaves have come"));
  tree.clear();
  for (std::int64_t leaf = 0; leaf < 4; ++leaf) tree.add(leaf, {1, 2});
  EXPECT_EQ(tree.take(), (Vector{4, 8}));
}

TEST(Leaves, AreAPowerOfTwoThatDivides) {
  EXPECT_EQ(leaves_of(1), 1);
  EXPECT_EQ(leaves_of(40), 8);
  EXPECT_EQ(leaves_of(64), 16);
  EXPECT_EQ(leaves_of(256), 32);
  EXPECT_EQ(leaves_of(512), 64);
  EXPECT_EQ(leaves_of(4096), 64);
  EXPECT_EQ(leaves_of(9), 1);
}

/// Each rank's two pieces of a zig-zag cut are an aligned range of the folded tree, and fold by themselves.
TEST(Leaves, Fold_SoThatBothPiecesOfAZigZagCutAreOneRange) {
  constexpr std::int64_t kBlocks = 16;
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const std::int64_t own = kBlocks / ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::int64_t> mine;  // blocks, as they lie in its memory
      for (std::int64_t b = 0; b < own / 2; ++b) mine.push_back(rank * (own / 2) + b);
      for (std::int64_t b = 0; b < own / 2; ++b) mine.push_back((2 * ranks - 1 - rank) * (own / 2) + b);
      for (std::int64_t leaf = 0; leaf < own; ++leaf)
        EXPECT_EQ(mine[static_cast<std::size_t>(folded(leaf, own))], folded(rank * own + leaf, kBlocks));
    }
  }
}

TEST(LeafRows, AreSummedByTheirTree) {
  constexpr std::int64_t kRows = 12, kLeaf = 3, kColumns = 5;
  Vector rows;
  for (std::int64_t r = 0; r < kRows; ++r) {
    const Vector row = leaf_values(r, kColumns);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  for (const bool is_folded : {false, true}) {
    const LeafRows of{kRows, kLeaf, is_folded};
    TreeSum<float> tree(4, kColumns);
    for (std::int64_t leaf = 0; leaf < 4; ++leaf) {
      const std::int64_t block = is_folded ? folded(leaf, 4) : leaf;
      Vector sum(kColumns);
      for (std::int64_t r = block * kLeaf; r < (block + 1) * kLeaf; ++r) sum = plus(sum, leaf_values(r, kColumns));
      EXPECT_EQ(of.first_of(leaf), block * kLeaf);
      EXPECT_EQ(of.leaf_of(block * kLeaf + 1), leaf);
      tree.add(leaf, sum);
    }
    Vector to(kColumns), some(kColumns);
    sum_leaf_rows(rows.data(), of, kColumns, kColumns, to.data());
    EXPECT_EQ(to, tree.take());

    std::vector<std::int64_t> which{1, 4, 5, 10};  // the others are zero
    Vector sparse(rows.size());
    for (const std::int64_t r : which)
      std::copy_n(rows.begin() + r * kColumns, kColumns, sparse.begin() + r * kColumns);
    sum_leaf_rows(sparse.data(), of, kColumns, kColumns, to.data());
    sum_some_leaf_rows(rows.data(), of, which, kColumns, kColumns, some.data());
    EXPECT_EQ(to, some);
  }
  EXPECT_THAT(complaint([] { require_leaves({12, 4, false}); }), HasSubstr("12 rows in leaf blocks of 4"));
}

}  // namespace
}  // namespace sinew::parallel
