#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

TEST(ParseBytes, Reads_EveryForm) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("8B"), 8u);
  EXPECT_EQ(parse_bytes("4KiB"), 4096u);
  EXPECT_EQ(parse_bytes("4K"), 4096u);
  EXPECT_EQ(parse_bytes("64MiB"), 64u << 20);
  EXPECT_EQ(parse_bytes("2G"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("18446744073709551615"), ~std::uint64_t{0});
}

TEST(ParseBytes, Refuses_EverythingElse) {
  for (const char* text : {"", "KiB", "-1", "+1", " 1", "1 ", "1.5KiB", "4kib", "0x10", "1PiB", "18446744073709551616",
                           "18446744073709551615KiB"}) {
    EXPECT_THROW(static_cast<void>(parse_bytes(text)), Error) << text;
  }
  try {
    static_cast<void>(parse_bytes("4q"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    EXPECT_STREQ(e.what(), "'4q': expected a size in bytes such as 8, 4KiB, 64MiB, 1GiB or 2TiB");
  }
}

TEST(FormatBytes, IsReadBack_AsTheSameNumber) {
  EXPECT_EQ(format_bytes(0), "0B");
  EXPECT_EQ(format_bytes(1000), "1000B");
  EXPECT_EQ(format_bytes(65536), "64KiB");
  EXPECT_EQ(format_bytes(3 << 20), "3MiB");
  EXPECT_EQ(format_bytes(std::uint64_t{5} << 40), "5TiB");
  EXPECT_EQ(parse_bytes("5TiB"), std::uint64_t{5} << 40);
  for (const std::uint64_t n : {1ul, 1023ul, 1024ul, 1025ul, 123456789ul, 1ul << 63}) {
    EXPECT_EQ(parse_bytes(format_bytes(n)), n);
  }
}

TEST(ParseDuration, Reads_EveryUnit) {
  EXPECT_EQ(parse_duration("250us"), 250us);
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("5min"), 5min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  EXPECT_EQ(parse_duration("0s"), 0s);
}

TEST(ParseDuration, Refuses_EverythingElse) {
  for (const char* text : {"", "30", "s", "-1s", "1.5s", "5x", "5 min", "99999999999999h", "18446744073709551615us"}) {
    EXPECT_THROW(static_cast<void>(parse_duration(text)), Error) << text;
  }
}

TEST(ParseDuration, LeavesRoomToBeAdded_WhenItIsTheLongest) {
  const Duration longest = parse_duration("9007199254740991us");
  EXPECT_GT(longest, Duration::zero());
  EXPECT_FALSE(Deadline::after(longest).passed());
}

}  // namespace
}  // namespace sinew
