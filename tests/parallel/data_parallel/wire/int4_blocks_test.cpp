#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/data_parallel/wire/int4_blocks.hpp>
#include <support/kernel_targets.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::cpu_targets;
using sinew::test::OnlyTarget;
using sinew::test::target_name;

const std::vector<std::size_t> kBlockLengths{0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 4097};

std::vector<std::byte> int4_of(const std::vector<float>& x) {
  std::vector<std::byte> coded(int4_bytes(x.size()) + 1, std::byte{0xEE});  // one more, which nobody writes
  encode_int4(x.data(), x.size(), coded.data());
  EXPECT_EQ(coded.back(), std::byte{0xEE});
  coded.pop_back();
  return coded;
}
std::vector<float> from_int4(const std::vector<std::byte>& coded, std::size_t count) {
  std::vector<float> x(count, 0.0F);
  add_int4(coded.data(), count, x.data());
  return x;
}

std::vector<float> normal_floats(std::size_t count, float scale, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> of;
  std::vector<float> x(count);
  for (float& v : x) v = scale * of(random);
  return x;
}

TEST(Int4Blocks, HaveTheStatedLayout) {
  EXPECT_EQ(int4_bytes(0), 0U);
  EXPECT_EQ(int4_bytes(1), 3U);
  EXPECT_EQ(int4_bytes(64), 34U);
  EXPECT_EQ(int4_bytes(67), 38U);
  // The scale is 1, 0x3f80. Elements 0 and 2 share a byte, as there are three.
  const std::vector<std::byte> small = int4_of({7, 1, -2});
  const std::vector<std::byte> expected{std::byte{0x80}, std::byte{0x3f}, std::byte{0xe7}, std::byte{0x01}};
  EXPECT_EQ(small, expected);
  // Elements 0 and 32 of a whole block share the byte behind the scale.
  std::vector<float> whole(64, 0.0F);
  whole[0] = -7, whole[32] = 3, whole[1] = 2;
  const std::vector<std::byte> block = int4_of(whole);
  EXPECT_EQ(block[2], std::byte{0x39});
  EXPECT_EQ(block[3], std::byte{0x02});
}

TEST(Int4Blocks, KeepWholeNumbersOfTheScale_OnEveryTarget) {
  for (const std::int64_t target : cpu_targets()) {
    const OnlyTarget only(target);
    for (const std::size_t count : kBlockLengths) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i) {
        const bool begins = i % kInt4Block == 0;  // the largest of its block
        x[i] = std::ldexp(begins ? -7.0F : static_cast<float>(static_cast<int>(i * 5 % 15) - 7),
                          static_cast<int>(i / kInt4Block % 40) - 20);
      }
      EXPECT_EQ(from_int4(int4_of(x), count), x) << count << " elements, " << target_name(target);
    }
  }
}

TEST(Int4Blocks, AreOffByAtMostAShareOfTheirLargest) {
  double worst = 0;
  for (const std::size_t count : kBlockLengths) {
    for (const float scale : {1e-38F, 1e-30F, 1e-3F, 1.0F, 3e4F, 1e30F, 1e37F}) {
      const std::vector<float> x = normal_floats(count, scale, static_cast<unsigned>(count));
      const std::vector<float> y = from_int4(int4_of(x), count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t first = i / kInt4Block * kInt4Block, last = std::min(first + kInt4Block, count);
        double largest = 0;
        for (std::size_t k = first; k < last; ++k) largest = std::max(largest, std::abs(static_cast<double>(x[k])));
        const double off = std::abs(static_cast<double>(y[i]) - static_cast<double>(x[i]));
        ASSERT_LE(off, std::max(largest / 13.8, 0x1p-127))
            << count << " elements, scale " << scale << ", element " << i;
        if (scale == 1.0F) worst = std::max(worst, off / largest);
      }
    }
  }
  EXPECT_GT(worst, 1 / 14.2) << "the bound is about as tight as it can be";
}

/// A sum over many ranks keeps no error that all of them have in common.
TEST(Int4Blocks, RoundWithoutBias) {
  constexpr std::size_t kCount = 1000 * kInt4Block;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> of(0, 1);
  std::vector<float> x(kCount), negative(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = of(random);
    negative[i] = -x[i];
  }
  const std::vector<float> y = from_int4(int4_of(x), kCount), z = from_int4(int4_of(negative), kCount);
  double off = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(z[i], -y[i]) << "element " << i;
    off += static_cast<double>(y[i]) - static_cast<double>(x[i]);
  }
  // A step is about a seventh. The mean of so many errors has a deviation of a seventh / sqrt(12 * kCount) = 1.6e-4.
  EXPECT_NEAR(off / static_cast<double>(kCount), 0, 1e-3);
}

/// The largest of 64 normal numbers is about 2.5 deviations. So a step is 2.5 / 7, and its error a sqrt(12)th of that.
TEST(Int4Blocks, LoseATenthOfNormalNumbers) {
  const std::vector<float> x = normal_floats(1000 * kInt4Block, 0.01F, 6), y = from_int4(int4_of(x), x.size());
  double off = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += std::pow(static_cast<double>(y[i]) - static_cast<double>(x[i]), 2);
    all += std::pow(static_cast<double>(x[i]), 2);
  }
  EXPECT_NEAR(std::sqrt(off / all), 2.5 / 7 / std::sqrt(12.0), 0.01);
}

TEST(Int4Blocks, AreNanWhereAnElementIsNotFinite_AndNowhereElse) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {0, 63, 64, 100, 128, 130}) {  // 131 elements: two whole blocks and one of three
      std::vector<float> x = normal_floats(131, 1, 3);
      x[place] = bad;
      const std::vector<float> y = from_int4(int4_of(x), x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(std::isnan(y[i]), i / kInt4Block == place / kInt4Block) << "element " << i << ", bad at " << place;
    }
  }
}

TEST(Int4Blocks, GiveTheSameBitsOnEveryTarget) {
  for (const std::size_t count : kBlockLengths) {
    const std::vector<float> x = normal_floats(count, 0.37F, 11), other = normal_floats(count, 2, 12);
    std::vector<std::byte> coded;
    std::vector<float> sums;
    for (const std::int64_t target : cpu_targets()) {
      const OnlyTarget only(target);
      const std::vector<std::byte> here = int4_of(x);
      std::vector<float> sum = other;
      add_int4(here.data(), count, sum.data());
      if (coded.empty()) coded = here, sums = sum;
      EXPECT_EQ(here, coded) << count << " elements, " << target_name(target);
      EXPECT_EQ(sum, sums) << count << " elements, " << target_name(target);
    }
  }
}

TEST(Int4Blocks, AddToWhatIsThere) {
  const std::vector<float> x{7, -7, 3, 0, 1}, first{1, 10, 100, 1000, 10'000};
  std::vector<float> sums = first;
  const std::vector<std::byte> coded = int4_of(x);
  for (int k = 0; k < 3; ++k) add_int4(coded.data(), x.size(), sums.data());
  EXPECT_EQ(sums, (std::vector<float>{22, -11, 109, 1000, 10'003}));
}

}  // namespace
}  // namespace sinew::parallel
