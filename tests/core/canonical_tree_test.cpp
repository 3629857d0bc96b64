#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/numeric/canonical_tree.hpp>

#include "support/balanced_sum.hpp"
#include "support/reduce_reference.hpp"

namespace sinew {
namespace {

using test::any_elements;
using test::balanced_sum;
using test::bits_at;

std::string text_of(int first, int leaves) {
  return over_canonical_tree(
      first, leaves, [](int i) { return std::to_string(i); },
      [](const std::string& a, const std::string& b) { return "(" + a + " " + b + ")"; });
}

TEST(CanonicalTree, IsAlignedAtPowersOfTwo_AndSkipsWhatIsNotThere) {
  EXPECT_EQ(text_of(0, 1), "0");
  EXPECT_EQ(text_of(0, 2), "(0 1)");
  EXPECT_EQ(text_of(0, 3), "((0 1) 2)");
  EXPECT_EQ(text_of(0, 5), "(((0 1) (2 3)) 4)");
  EXPECT_EQ(text_of(0, 6), "(((0 1) (2 3)) (4 5))");
  EXPECT_EQ(text_of(0, 7), "(((0 1) (2 3)) ((4 5) 6))");
  EXPECT_EQ(text_of(8, 4), "((8 9) (10 11))");
}

TEST(CanonicalTree, IsTheSameToldFromBelow) {
  for (int leaves = 1; leaves <= 130; ++leaves) {
    std::vector<std::string> each;
    for (int i = 0; i < leaves; ++i) each.push_back(std::to_string(i));
    EXPECT_EQ(text_of(0, leaves),
              balanced_sum(each, [](const std::string& a, const std::string& b) { return "(" + a + " " + b + ")"; }));
  }
}

/// One element of all sources, one addition after the other.
std::uint64_t expected(ReduceOp op, DType dtype, const std::vector<std::vector<std::byte>>& sources, std::size_t i) {
  std::vector<std::uint64_t> bits;
  for (const auto& s : sources) bits.push_back(bits_at(s.data() + 1, i, dtype));
  return balanced_sum(bits, [&](std::uint64_t a, std::uint64_t b) {
    const std::uint64_t pair[] = {a, b};
    return test::combine_all(op, dtype, {&pair[0], &pair[1]}, 0);
  });
}

/// Elements of any bits at odd addresses; the sum lies apart, or where one of the sources is.
void expect_bits(DType dtype, int count, std::size_t elements, int onto) {
  SCOPED_TRACE(std::string(name_of(dtype)) + ", " + std::to_string(count) + " sources of " + std::to_string(elements));
  const std::size_t bytes = elements * size_of(dtype);
  std::vector<std::vector<std::byte>> sources;
  for (int s = 0; s < count; ++s) {
    std::vector<std::byte> data = any_elements(dtype, elements + 1, static_cast<unsigned>(s + 7 * count));
    std::rotate(data.begin(), data.end() - 1, data.end());
    sources.push_back(std::move(data));
  }
  const auto given = sources;
  std::vector<std::byte> apart(bytes + 2, std::byte{0x5a});
  std::vector<std::byte>& to = onto < 0 ? apart : sources[static_cast<std::size_t>(onto)];
  std::vector<const void*> at;
  for (const auto& s : sources) at.push_back(s.data() + 1);
  reduce_by_tree(reducer_for(ReduceOp::Sum, dtype), to.data() + 1, at, bytes);
  for (std::size_t i = 0; i < elements; ++i)
    ASSERT_EQ(bits_at(to.data() + 1, i, dtype),
              count == 1 ? bits_at(given[0].data() + 1, i, dtype) : expected(ReduceOp::Sum, dtype, given, i))
        << "element " << i;
  if (onto < 0) {
    EXPECT_EQ(apart.front(), std::byte{0x5a});
    EXPECT_EQ(apart.back(), std::byte{0x5a});
  }
  for (std::size_t s = 0; s < given.size(); ++s) {
    if (static_cast<int>(s) != onto) {
      EXPECT_EQ(sources[s], given[s]);
    }
  }
}

TEST(ReduceByTree, GivesTheBitsOfTheTree_OntoAnyOfTheSources) {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::F8E4M3}) {
    for (const int count : {1, 2, 3, 4, 5, 7, 8, 16, 33, 64}) {
      for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{1501}}) {
        for (const int onto : {-1, 0, count / 2, count - 1}) expect_bits(dtype, count, elements, onto);
      }
    }
  }
}

/// A check that could not fail would be none.
TEST(ReduceByTree, DiffersFromTheOrderOfTheSources) {
  const float data[] = {1e8F, 1.0F, -1e8F, 1.0F};
  const void* const sources[] = {&data[0], &data[1], &data[2], &data[3]};
  float by_tree = 0, in_turn = 0;
  reduce_by_tree(reducer_for(ReduceOp::Sum, DType::F32), &by_tree, sources, sizeof(float));
  many_reducer_for(ReduceOp::Sum, DType::F32)(&in_turn, sources, 4, sizeof(float));
  EXPECT_EQ(by_tree, 0.0F);
  EXPECT_EQ(in_turn, 1.0F);
}

}  // namespace
}  // namespace sinew
