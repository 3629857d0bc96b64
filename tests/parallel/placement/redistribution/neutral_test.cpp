#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/placement/redistribution/neutral.hpp>

namespace sinew::parallel::test {
namespace {

/// All bytes a float may have, so that zeros of both signs, infinities and extremes are among the elements; no NaN.
std::vector<std::byte> elements_of(DType dtype) {
  std::vector<std::byte> data;
  if (dtype == DType::Bool) return {std::byte{0}, std::byte{1}};
  for (int high = 0; high < 256; ++high) {
    for (const int low : {0x00, 0x01, 0x80, 0xff}) {
      for (std::size_t i = 0; i + 1 < size_of(dtype); ++i) data.push_back(static_cast<std::byte>(low));
      data.push_back(static_cast<std::byte>(high));
    }
  }
  return data;
}

TEST(Neutral, ChangesNoBitOfAnyElement_UnderEveryOperatorAndType) {
  for (const DType dtype : all_dtypes()) {
    for (const ReduceOp op : all_reduce_ops()) {
      if (!has_neutral(op) || !is_defined(op, dtype)) continue;
      const std::size_t each = size_of(dtype);
      const std::vector<std::byte> data = elements_of(dtype);
      std::vector<std::byte> neutral(data.size()), both(data.size());
      fill_neutral({neutral.data(), neutral.size()}, dtype, op);
      reducer_for(op, dtype)(both.data(), data.data(), neutral.data(), data.size());
      for (std::size_t at = 0; at < data.size(); at += each) {
        std::vector<std::byte> self(each);
        // What the operator makes of an element and itself is a NaN if the element is one.
        reducer_for(ReduceOp::Max, dtype)(self.data(), data.data() + at, data.data() + at, each);
        if (std::memcmp(self.data(), data.data() + at, each) != 0) continue;
        EXPECT_EQ(std::memcmp(both.data() + at, data.data() + at, each), 0)
            << name_of(op) << " " << name_of(dtype) << " element " << at / each;
      }
    }
  }
}

}  // namespace
}  // namespace sinew::parallel::test
