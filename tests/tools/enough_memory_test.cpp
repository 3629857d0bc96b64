#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/bench/buffers/enough_memory.hpp>

namespace sinew::tools {
namespace {

TEST(EnoughMemory, IsSaidToLack_WithBothFigures) {
  EXPECT_EQ(lack_of_memory(1 << 20, 1 << 20), "");
  EXPECT_EQ(lack_of_memory(1 << 20, 0), "") << "nobody knows what there is";
  EXPECT_THAT(lack_of_memory(std::uint64_t{64} << 30, std::uint64_t{16} << 30),
              testing::AllOf(testing::HasSubstr("64GiB"), testing::HasSubstr("16GiB")));
}

TEST(EnoughMemory, IsRead) { EXPECT_GT(available_memory(), 1U << 20); }

}  // namespace
}  // namespace sinew::tools
