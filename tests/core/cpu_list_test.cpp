#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu_list.hpp>

namespace sinew {
namespace {

TEST(CpuList, ReadsTheKernelsNotation) {
  EXPECT_EQ(parse_cpu_list(""), (std::vector<int>{}));
  EXPECT_EQ(parse_cpu_list("0"), (std::vector<int>{0}));
  EXPECT_EQ(parse_cpu_list("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("8,0-1,1-2"), (std::vector<int>{0, 1, 2, 8}));
}

TEST(CpuList, WritesRuns) {
  EXPECT_EQ(format_cpu_list({}), "");
  EXPECT_EQ(format_cpu_list(std::vector{5}), "5");
  EXPECT_EQ(format_cpu_list(std::vector{0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(CpuList, ShowsTextAndForm_WhenItIsNone) {
  for (const char* bad : {"x", "1-", "-1", "3-1", "1,,2", "1 2", "99999999999", "0-4294967295"}) {
    try {
      parse_cpu_list(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      EXPECT_EQ(std::string(error.what()), "'" + std::string(bad) + "': expected a list of numbers such as 0-3,8");
    }
  }
}

}  // namespace
}  // namespace sinew
