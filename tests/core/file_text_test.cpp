#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/system/file_text.hpp>

#include "support/scratch_folder.hpp"

namespace sinew {
namespace {

TEST(FileText, IsEverything_ZeroBytesAndLongFilesAmongIt) {
  const test::ScratchFolder folder;
  const std::string path = folder / "text";
  for (const std::size_t length : {0, 1, 4095, 4096, 4097, 100'000}) {
    std::string text(length, 'a');
    if (length > 1) text[length / 2] = '\0';
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(file_text(path), text) << length;
  }
}

TEST(FileText, IsNothing_WhenTheFileCannotBeRead) {
  EXPECT_EQ(file_text("/nowhere/at/all"), std::nullopt);
  EXPECT_EQ(file_text(testing::TempDir()), std::nullopt);
}

}  // namespace
}  // namespace sinew
