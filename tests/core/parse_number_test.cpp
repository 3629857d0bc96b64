#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <sinew/core/base/parse_number.hpp>

namespace sinew {
namespace {

TEST(ParseNumber, Takes_TheWholeText) {
  EXPECT_EQ(parse_number<int>("0"), 0);
  EXPECT_EQ(parse_number<int>("007"), 7);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  for (const char* text : {"", " ", "1 ", " 1", "+1", "1.0", "1e3", "0x10", "-", "1a", "one"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << "'" << text << "'";
  }
  EXPECT_EQ(parse_number<int>(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(parse_number<int>({}), std::nullopt);
}

TEST(ParseNumber, Keeps_ToTheLimitsOfItsType) {
  EXPECT_EQ(parse_number<std::int32_t>("2147483647"), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(parse_number<std::int32_t>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_number<std::int32_t>("-2147483648"), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint32_t>("-1"), std::nullopt);
}

TEST(ParseNumber, Reads_OtherBases) {
  EXPECT_EQ(parse_number<unsigned>("fF", 16), 255u);
  EXPECT_EQ(parse_number<unsigned>("0xff", 16), std::nullopt);
  EXPECT_EQ(parse_number<unsigned>("fg", 16), std::nullopt);
  EXPECT_EQ(parse_number<unsigned>("102", 2), std::nullopt);
}

TEST(ParseNumberPair, TakesTwoNumbers_WithAColonBetween) {
  EXPECT_EQ(parse_number_pair<int>("16:257"), std::pair(16, 257));
  EXPECT_EQ(parse_number_pair<int>("9:1"), std::pair(9, 1));
  for (const char* text : {"", ":", "1", "1:", ":1", "1:2:3", "a:1", "1 :2", "1:99999999999"})
    EXPECT_EQ(parse_number_pair<int>(text), std::nullopt) << text;
}

}  // namespace
}  // namespace sinew
