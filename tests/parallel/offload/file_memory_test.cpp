#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/offload/file_memory.hpp>

#include "scratch_folder.hpp"

namespace sinew::parallel {
namespace {

using test::error_of;
using test::ShortFiles;
using ::testing::HasSubstr;

using FileMemoryTest = test::ScratchFolderTest;

TEST_F(FileMemoryTest, IsZeroAndKeepsItsBytes) {
  auto of_folder = std::make_unique<FileMemory>(folder());
  for (const std::size_t bytes : {0, 1, 4096, 1'000'003}) {
    const Memory memory = (*of_folder)(bytes), other = (*of_folder)(bytes);
    const auto all = memory.as<std::byte>();
    ASSERT_EQ(all.size(), bytes);
    EXPECT_TRUE(std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(all, std::byte{0x5a});
    std::ranges::fill(other.as<std::byte>(), std::byte{0xa5});
    EXPECT_TRUE(std::ranges::all_of(all, [](std::byte b) { return b == std::byte{0x5a}; }));
    EXPECT_TRUE(std::filesystem::is_empty(folder())) << "while the memory is there";
  }
  const Memory last = (*of_folder)(100);
  of_folder.reset();
  std::ranges::fill(last.as<std::byte>(), std::byte{1});
}

TEST_F(FileMemoryTest, NamesTheFolderAndTheReason) {
  const std::string nowhere = folder() + "/nowhere";
  EXPECT_THAT(error_of([&] { (void)FileMemory(nowhere)(10); }),
              ::testing::AllOf(HasSubstr(nowhere), HasSubstr("No such file or directory")));
  const ShortFiles full(100'000);
  (void)FileMemory(folder())(90'000);
  EXPECT_THAT(error_of([&] { (void)FileMemory(folder())(200'000); }),
              ::testing::AllOf(HasSubstr("offload to a scratch file in '" + folder() + "': 200000 bytes"),
                               HasSubstr("File too large")));
}

}  // namespace
}  // namespace sinew::parallel
