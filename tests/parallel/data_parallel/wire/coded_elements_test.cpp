#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/wire/coded_elements.hpp>

#include "../../support/elements.hpp"

namespace sinew::parallel {
namespace {

using test::put;
using test::rounding_of;
using test::value_of;

constexpr std::array kDTypes{DType::F64, DType::F32, DType::BF16, DType::F16};
const std::vector<std::int64_t> kElementCounts{4, 5, 255, 256, 257, 4095, 4096, 4097, 10'001};

std::vector<std::byte> wave(DType dtype, std::int64_t count, double scale) {
  std::vector<std::byte> all(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i)
    put(dtype, all.data() + static_cast<std::size_t>(i) * size_of(dtype),
        scale * std::sin(1.7 * static_cast<double>(i * i % 1013)));
  return all;
}

double element(const std::vector<std::byte>& all, DType dtype, std::int64_t i) {
  return value_of(dtype, all.data() + static_cast<std::size_t>(i) * size_of(dtype));
}

TEST(CodedElements, DecodeInt8WithinTheBound) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t count : kElementCounts) {
      const std::string what = std::to_string(count) + " elements of " + std::string(name_of(dtype));
      const std::vector<std::byte> x = wave(dtype, count, 3);
      std::vector<std::byte> coded(int8_bytes(count)), y(x.size());
      encode_int8(x.data(), dtype, count, coded.data());
      decode_int8(coded.data(), y.data(), dtype, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double exact = element(x, dtype, i);
        ASSERT_LE(std::abs(element(y, dtype, i) - exact), 3.0 / 253 + std::abs(exact) * 2 * rounding_of(dtype)) << what;
      }
    }
  }
}

TEST(CodedElements, DecodeInt8WithinTheirOwnMemory) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t lines : {1, 7, 8, 9, 255, 256, 257, 1001}) {
      const auto count = lines * 64 / static_cast<std::int64_t>(size_of(dtype));
      const std::vector<std::byte> x = wave(dtype, count, 3);
      std::vector<std::byte> coded(int8_bytes(count)), apart(x.size()), within(x.size());
      encode_int8(x.data(), dtype, count, coded.data());
      decode_int8(coded.data(), apart.data(), dtype, count);
      std::byte* const end = within.data() + (within.size() - coded.size());
      std::ranges::copy(coded, end);
      decode_int8(end, within.data(), dtype, count);
      EXPECT_TRUE(within == apart) << count << " elements of " << name_of(dtype);
    }
  }
}

TEST(CodedElements, SumInt4InF32OfEveryDType) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t count : kElementCounts) {
      std::vector<std::vector<std::byte>> coded;
      std::vector<const std::byte*> parts;
      std::vector<double> exact(static_cast<std::size_t>(count));
      for (int r = 0; r < 3; ++r) {
        const std::vector<std::byte> x = wave(dtype, count, r + 1);
        for (std::int64_t i = 0; i < count; ++i) exact[static_cast<std::size_t>(i)] += element(x, dtype, i) / 4;
        coded.emplace_back(int4_bytes(static_cast<std::size_t>(count)));
        encode_int4(x.data(), dtype, count, coded.back().data());
      }
      for (const auto& c : coded) parts.push_back(c.data());
      std::vector<std::byte> sum(static_cast<std::size_t>(count) * size_of(dtype));
      sum_int4(parts, 0.25F, sum.data(), dtype, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double e = exact[static_cast<std::size_t>(i)];
        ASSERT_LE(std::abs(element(sum, dtype, i) - e), 6.0 / 4 / 13.8 + (1.5 + std::abs(e)) * rounding_of(dtype))
            << count << " elements of " << name_of(dtype) << ", element " << i;
      }
    }
  }
}

TEST(CodedElements, AreNanForNumbersThatF32DoesNotHave) {
  std::vector<double> x(300, 1.0);
  x[299] = 1e39;
  const auto* from = reinterpret_cast<const std::byte*>(x.data());
  std::vector<std::byte> int8(int8_bytes(300)), int4(int4_bytes(300));
  std::vector<double> gathered(300), summed(300);
  encode_int8(from, DType::F64, 300, int8.data());
  decode_int8(int8.data(), reinterpret_cast<std::byte*>(gathered.data()), DType::F64, 300);
  encode_int4(from, DType::F64, 300, int4.data());
  const std::byte* const part = int4.data();
  sum_int4({&part, 1}, 1, reinterpret_cast<std::byte*>(summed.data()), DType::F64, 300);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(std::isnan(gathered[i]), i >= 256) << i;
    EXPECT_EQ(std::isnan(summed[i]), i >= 256) << i;
  }
}

}  // namespace
}  // namespace sinew::parallel
