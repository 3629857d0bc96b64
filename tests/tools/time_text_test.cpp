#include <gtest/gtest.h>

#include <sinew/tools/common/time_text.hpp>

namespace sinew::tools {
namespace {

TEST(TimeText, HasAUnitThatSuits) {
  EXPECT_EQ(time_text(0), "0");
  EXPECT_EQ(time_text(8.5e-7), "850 ns");
  EXPECT_EQ(time_text(1e-6), "1 us");
  EXPECT_EQ(time_text(1.25e-5), "12.5 us");
  EXPECT_EQ(time_text(3e-3), "3 ms");
  EXPECT_EQ(time_text(90), "90 s");
}

TEST(TimeText, HasFourDigitsAtMost) { EXPECT_EQ(time_text(0.123456), "123.5 ms"); }

}  // namespace
}  // namespace sinew::tools
