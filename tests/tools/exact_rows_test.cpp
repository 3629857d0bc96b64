#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/reduce.hpp>
#include <sinew/tools/check/exact_rows.hpp>
#include <sinew/tools/check/exact_values.hpp>

namespace sinew::check {
namespace {

constexpr std::uint64_t kCount = 1100;  // more than a period

std::vector<std::byte> row(ExactRows& rows, DType dtype, int source, std::uint64_t first) {
  std::vector<std::byte> bytes(kCount * size_of(dtype));
  rows.write(bytes.data(), source, first, kCount);
  return bytes;
}

/// Combines all ranks' rows with the library's kernels in a given order and checks the outcome bit for bit.
void expect_exact(DType dtype, ReduceOp op, int ranks, const std::vector<int>& order) {
  ExactRows rows(dtype, op, true, ranks);
  const Reducer reduce = reducer_for(op, dtype);
  std::vector<std::byte> sum;
  for (const int r : order) {
    std::vector<std::byte> mine = row(rows, dtype, r, 77);
    if (op == ReduceOp::PreMulSum) scaler_for(dtype, kPreMultiply)(mine.data(), mine.data(), mine.size());
    if (sum.empty()) {
      sum = mine;
    } else {
      reduce(sum.data(), sum.data(), mine.data(), sum.size());
    }
  }
  if (op == ReduceOp::Average) scaler_for(dtype, 1.0 / ranks)(sum.data(), sum.data(), sum.size());
  EXPECT_EQ(rows.differing(sum.data(), kCombined, 77, kCount), 0u)
      << name_of(op) << " of " << name_of(dtype) << " over " << ranks;
}

TEST(ExactRows, IsExactInAnyOrder_ForEveryDtypeAndOperator) {
  std::mt19937 random(1);
  for (const int ranks : {1, 2, 3, 5, 8, 17, 49, 300}) {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) order[static_cast<std::size_t>(r)] = r;
    for (const DType dtype : all_dtypes()) {
      for (const ReduceOp op : all_reduce_ops()) {
        if (!is_defined(op, dtype)) continue;
        expect_exact(dtype, op, ranks, order);
        std::ranges::shuffle(order, random);
        expect_exact(dtype, op, ranks, order);
      }
    }
  }
}

/// Two halves added apart, then together: the order of a tree.
TEST(ExactRows, IsExactAsATree) {
  for (const DType dtype : all_dtypes()) {
    ExactRows rows(dtype, ReduceOp::Sum, true, 8);
    const Reducer add = reducer_for(ReduceOp::Sum, dtype);
    std::vector<std::vector<std::byte>> level;
    for (int r = 0; r < 8; ++r) level.push_back(row(rows, dtype, r, 0));
    for (std::size_t step = 1; step < 8; step *= 2) {
      for (std::size_t r = 0; r < 8; r += 2 * step)
        add(level[r].data(), level[r].data(), level[r + step].data(), level[r].size());
    }
    EXPECT_EQ(rows.differing(level[0].data(), kCombined, 0, kCount), 0u) << name_of(dtype);
  }
}

TEST(ExactRows, NoticesAMissingOrDoubledContribution) {
  for (const DType dtype : all_dtypes()) {
    for (const int ranks : {2, 5, 40}) {
      ExactRows rows(dtype, ReduceOp::Sum, true, ranks);
      const Reducer add = reducer_for(ReduceOp::Sum, dtype);
      std::vector<std::byte> sum = row(rows, dtype, 0, 0);
      for (int r = 1; r < ranks - 1; ++r) add(sum.data(), sum.data(), row(rows, dtype, r, 0).data(), sum.size());
      EXPECT_GT(rows.differing(sum.data(), kCombined, 0, kCount), 0u) << "missing, " << name_of(dtype);
      if (dtype == DType::Bool) continue;  // "or" of a value and itself is that value
      for (int twice = 0; twice < 2; ++twice)
        add(sum.data(), sum.data(), row(rows, dtype, ranks - 1, 0).data(), sum.size());
      EXPECT_GT(rows.differing(sum.data(), kCombined, 0, kCount), 0u) << "doubled, " << name_of(dtype);
    }
  }
}

/// 2 codings of contributions of at most 1000 each, by 253.
TEST(ExactRows, OfCodedSums_AllowTheStatedErrorAndNoMore) {
  ExactRows rows(Codec::Int8, 2, ReduceOp::Sum, true, 2);
  std::vector<std::byte> sum = row(rows, DType::F32, kCombined, 0);
  const auto add = [&](float error) {
    for (std::size_t i = 0; i < kCount; ++i) {
      float value = 0;
      std::memcpy(&value, sum.data() + 4 * i, 4);
      value += error;
      std::memcpy(sum.data() + 4 * i, &value, 4);
    }
  };
  add(15.5f);
  EXPECT_EQ(rows.differing(sum.data(), kCombined, 0, kCount), 0u);
  add(0.5f);
  EXPECT_EQ(rows.differing(sum.data(), kCombined, 0, kCount), kCount);
  const std::vector<std::byte> half = row(rows, DType::F32, 0, 0);  // the other rank's contribution is missing
  EXPECT_GT(rows.differing(half.data(), kCombined, 0, kCount), kCount / 2);
}

TEST(ExactRows, NoticesShiftedStaleAndForeignData) {
  ExactRows rows(DType::F32, ReduceOp::Sum, false, 4);
  const std::vector<std::byte> right = row(rows, DType::F32, 2, 100);
  EXPECT_EQ(rows.differing(right.data(), 2, 100, kCount), 0u);
  EXPECT_EQ(rows.differing(right.data(), 2, 100 + ExactRows::kPeriod, kCount), 0u);
  EXPECT_GT(rows.differing(right.data(), 2, 101, kCount), kCount / 2);
  EXPECT_GT(rows.differing(right.data(), 1, 100, kCount), kCount / 2);
  std::vector<std::byte> one = right;
  one.back() ^= std::byte{1};
  EXPECT_EQ(rows.differing(one.data(), 2, 100, kCount), 1u);
}

}  // namespace
}  // namespace sinew::check
