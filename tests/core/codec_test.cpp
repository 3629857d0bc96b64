#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/numeric/codec.hpp>
#include <support/kernel_targets.hpp>

namespace sinew {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr std::size_t kCounts[] = {0, 1, 2, 3, 15, 17, 255, 256, 257, 511, 513, 1000};

using Floats = std::vector<float>;

struct Data {
  const char* name;
  std::function<float(std::mt19937&)> next;
};

std::vector<Data> data_sets() {
  const auto between = [](float scale) {
    return [scale](std::mt19937& r) { return scale * std::uniform_real_distribution<float>(-1, 1)(r); };
  };
  return {{"zero", [](std::mt19937& r) { return r() % 2 == 0 ? 0.0f : -0.0f; }},
          {"ones", between(1)},
          {"large", between(1e30f)},
          {"largest", [](std::mt19937& r) { return r() % 2 == 0 ? kMax : -kMax; }},
          {"denormal", between(1e-39f)},
          {"least", [](std::mt19937& r) { return r() % 2 == 0 ? 1e-45f : -1e-45f; }},
          {"halves of whole numbers",
           [](std::mt19937& r) { return r() % 8 == 0 ? 127.0f : static_cast<float>(r() % 250) / 2 - 62.5f; }},
          {"many magnitudes", [](std::mt19937& r) {
             return std::ldexp(std::uniform_real_distribution<float>(-1, 1)(r), static_cast<int>(r() % 200) - 100);
           }}};
}

Floats generate(const Data& data, std::size_t count) {
  std::mt19937 random(7);
  Floats values(count);
  for (float& v : values) v = data.next(random);
  return values;
}

/// Coded at an odd address, with bytes behind that must stay.
struct Coded {
  std::vector<std::byte> memory;
  std::size_t bytes;

  Coded(Codec codec, const Floats& values) : bytes(wire_bytes(codec, values.size())) {
    constexpr std::size_t kBehind = 64;
    memory.assign(1 + bytes + kBehind, std::byte{0xa5});
    codec_kernels(codec).encode(memory.data() + 1, values.data(), values.size());
    for (std::size_t i = 0; i < kBehind; ++i) EXPECT_EQ(memory[1 + bytes + i], std::byte{0xa5}) << "behind the chunk";
    EXPECT_EQ(memory[0], std::byte{0xa5});
  }
  const std::byte* data() const { return memory.data() + 1; }
};

Floats decoded(Codec codec, const Floats& values) {
  const Coded coded(codec, values);
  Floats result(values.size() + 1, -7.0f);
  codec_kernels(codec).decode(result.data(), coded.data(), values.size());
  EXPECT_EQ(result.back(), -7.0f);
  result.pop_back();
  return result;
}

/// What core/numeric/codec.hpp states, in f64.
double allowed(Codec codec, const Floats& values, std::size_t i) {
  if (codec == Codec::Bf16) return std::max(std::abs(static_cast<double>(values[i])) / 256, std::ldexp(1.0, -134));
  if (codec == Codec::F16) return std::max(std::abs(static_cast<double>(values[i])) / 2048, std::ldexp(1.0, -25));
  const std::size_t first = i / kScaledBlock * kScaledBlock;
  double largest = 0;
  for (std::size_t k = first; k < std::min(values.size(), first + kScaledBlock); ++k)
    largest = std::max(largest, std::abs(static_cast<double>(values[k])));
  if (codec == Codec::Int8) return std::max(largest / 253, std::ldexp(1.0, -127));
  return std::max({std::abs(static_cast<double>(values[i])) / 16, largest / 458'000, std::ldexp(1.0, -135)});
}

float overflows_from(Codec codec) { return codec == Codec::Bf16 ? 3.39e38f : codec == Codec::F16 ? 65520 : kInfinity; }

class CodecOf : public ::testing::TestWithParam<Codec> {};

TEST_P(CodecOf, ErrsByNoMoreThanStated_OnEveryTargetCountAndMagnitude) {
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    for (const Data& data : data_sets()) {
      for (const std::size_t count : kCounts) {
        const Floats values = generate(data, count);
        const Floats found = decoded(GetParam(), values);
        for (std::size_t i = 0; i < count; ++i) {
          if (std::abs(values[i]) >= overflows_from(GetParam())) {
            EXPECT_EQ(found[i], std::copysign(kInfinity, values[i]));
            continue;
          }
          ASSERT_LE(std::abs(static_cast<double>(found[i]) - values[i]), allowed(GetParam(), values, i))
              << test::target_name(target) << ", " << data.name << ", element " << i << " of " << count << ": "
              << values[i] << " became " << found[i];
        }
      }
    }
  }
}

/// A control: half of what is stated is not enough.
TEST_P(CodecOf, ErrsByMoreThanHalfOfWhatIsStated_Somewhere) {
  const Floats values = generate(data_sets()[1], 4096);
  const Floats found = decoded(GetParam(), values);
  int more = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    more += std::abs(static_cast<double>(found[i]) - values[i]) > allowed(GetParam(), values, i) / 2 ? 1 : 0;
  EXPECT_GT(more, 100);
}

TEST_P(CodecOf, GivesTheSameBits_OnEveryTarget) {
  for (const Data& data : data_sets()) {
    for (const std::size_t count : kCounts) {
      const Floats values = generate(data, count);
      const Floats other = generate(data_sets()[1], count);
      std::vector<std::byte> first;
      Floats sums;
      for (const std::int64_t target : test::cpu_targets()) {
        const test::OnlyTarget only(target);
        const Coded coded(GetParam(), values);
        Floats sum(count);
        codec_kernels(GetParam()).decode_add(sum.data(), other.data(), coded.data(), count);
        if (first.empty()) {
          first = coded.memory;
          sums = sum;
        }
        EXPECT_EQ(coded.memory, first) << test::target_name(target) << ", " << data.name << ", " << count;
        EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(sum)), std::as_bytes(std::span(sums))))
            << test::target_name(target);
      }
    }
  }
}

TEST_P(CodecOf, AddsWhatItDecodes_InPlaceToo) {
  for (const std::size_t count : kCounts) {
    const Floats values = generate(data_sets()[1], count);
    const Floats other = generate(data_sets()[6], count);
    const Floats alone = decoded(GetParam(), values);
    const Coded coded(GetParam(), values);
    Floats sum(count), in_place = other;
    codec_kernels(GetParam()).decode_add(sum.data(), other.data(), coded.data(), count);
    codec_kernels(GetParam()).decode_add(in_place.data(), in_place.data(), coded.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(sum[i], other[i] + alone[i]);
      EXPECT_EQ(in_place[i], sum[i]);
    }
  }
}

TEST_P(CodecOf, WhatItDecodesTo_IsCodedWithoutFurtherError) {
  const Floats once = decoded(GetParam(), generate(data_sets()[1], 1000));
  const Floats twice = decoded(GetParam(), once);
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_NEAR(twice[i], once[i], has_scales(GetParam()) ? 1e-6 : 0) << "element " << i;
}

/// In any place of a block, beside any others, and in a sum.
TEST_P(CodecOf, InfinityAndNan_NeverBecomeFinite) {
  for (const std::int64_t target : test::cpu_targets()) {
    const test::OnlyTarget only(target);
    for (const float strange : {kInfinity, -kInfinity, kNan, -kNan}) {
      for (const std::size_t at : {0, 1, 100, 255, 256, 299, 300}) {
        Floats values = generate(data_sets()[1], 301);
        values[at] = strange;
        const Floats found = decoded(GetParam(), values);
        ASSERT_FALSE(std::isfinite(found[at])) << test::target_name(target) << " element " << at;
        if (!has_scales(GetParam())) {
          EXPECT_TRUE(found[at] == strange || (std::isnan(found[at]) && std::isnan(strange)));
          continue;
        }
        for (std::size_t i = 0; i < values.size(); ++i)
          EXPECT_EQ(std::isnan(found[i]), i / kScaledBlock == at / kScaledBlock) << "all of its block, and no other";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CodecOf, ::testing::Values(Codec::Bf16, Codec::F16, Codec::Int8, Codec::F8E4M3),
                         [](const auto& each) { return std::string(name_of(each.param)); });

TEST(Codec, WireBytes_AreWholeWords) {
  EXPECT_EQ(wire_bytes(Codec::None, 5), 20u);
  EXPECT_EQ(wire_bytes(Codec::Bf16, 0), 0u);
  EXPECT_EQ(wire_bytes(Codec::Bf16, 1), 4u);
  EXPECT_EQ(wire_bytes(Codec::Bf16, 256), 512u);
  EXPECT_EQ(wire_bytes(Codec::F16, 3), 8u);
  EXPECT_EQ(wire_bytes(Codec::Int8, 0), 0u);
  EXPECT_EQ(wire_bytes(Codec::Int8, 1), 8u);
  EXPECT_EQ(wire_bytes(Codec::Int8, 256), 260u);
  EXPECT_EQ(wire_bytes(Codec::Int8, 257), 268u);
}

TEST(Codec, Int8_LaysOutScaleThenNumbers) {
  const Floats values{127, -127, 1, 0.5f, 1.5f, -2.5f};  // a scale of 1, a little less; ties to even
  const Coded coded(Codec::Int8, values);
  float scale = 0;
  std::memcpy(&scale, coded.data(), sizeof(scale));
  EXPECT_NEAR(scale, 1, 1e-6);
  EXPECT_LE(scale, 1);
  const auto number = [&](std::size_t i) { return static_cast<int>(static_cast<std::int8_t>(coded.data()[4 + i])); };
  EXPECT_EQ(number(0), 127);
  EXPECT_EQ(number(1), -127);
  EXPECT_EQ(number(2), 1);
  EXPECT_EQ(number(6), 0) << "padding";
  EXPECT_EQ(number(7), 0) << "padding";
}

TEST(Codec, F8E4M3_LaysOutScaleThenFloats) {
  const Floats values{448, -448, 1, 16.5F, 0.015625F, 300};  // a scale of 1, a little less
  const Coded coded(Codec::F8E4M3, values);
  EXPECT_EQ(coded.bytes, 4u + 8u);
  const auto number = [&](std::size_t i) { return static_cast<int>(coded.data()[4 + i]); };
  EXPECT_EQ(number(0), 0x7e) << "the largest number";
  EXPECT_EQ(number(1), 0xfe);
  EXPECT_EQ(number(2), 0x38) << "exponent 7 means 1";
  EXPECT_EQ(number(3), 0x58) << "16.5 is nearer to 16 than to 18";
  EXPECT_EQ(number(4), 0x08) << "the smallest normal number";
  EXPECT_EQ(number(5), 0x79) << "300 is nearer to 288 than to 320";
  EXPECT_EQ(number(6), 0) << "padding";
  EXPECT_EQ(decoded(Codec::F8E4M3, {1, 1e-3F})[1], decoded(Codec::F8E4M3, {1, 1e-3F, 0})[1]);
}

/// Beside a large element int8 makes them zero. Here they keep three binary digits.
TEST(Codec, F8E4M3_KeepsSmallElementsOfABlock) {
  const Floats values{1000, 1, 0.1F};
  EXPECT_EQ(decoded(Codec::Int8, values)[1], 0);
  const Floats kept = decoded(Codec::F8E4M3, values);
  EXPECT_NEAR(kept[1], 1, 1.0 / 16);
  EXPECT_NEAR(kept[2], 0.1, 0.1 / 16);
}

TEST(Codec, Names_AreReadBack) {
  for (const Codec c : {Codec::None, Codec::Bf16, Codec::Int8, Codec::F16, Codec::F8E4M3})
    EXPECT_EQ(codec_from_name(name_of(c)), c);
  EXPECT_EQ(codec_from_name("fp4"), std::nullopt);
}

TEST(Codec, Errors_GrowWithEveryCoding) {
  EXPECT_EQ(coding_error(Codec::None, 5, 1), 0);
  EXPECT_DOUBLE_EQ(coding_error(Codec::Int8, 1, 253), 1);
  EXPECT_DOUBLE_EQ(coding_error(Codec::Int8, 8, 253), 8);
  EXPECT_DOUBLE_EQ(coding_error(Codec::F8E4M3, 2, 27.9), 2);
  EXPECT_DOUBLE_EQ(coding_error(Codec::Bf16, 1, 256), 1);
  EXPECT_DOUBLE_EQ(coding_error(Codec::F16, 1, 2048), 1);
  EXPECT_DOUBLE_EQ(coding_error(Codec::Bf16, 2, 256), 2 + 1.0 / 256);
}

}  // namespace
}  // namespace sinew
