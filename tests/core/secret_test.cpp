#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/secret.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>

namespace sinew {
namespace {

using testing::HasSubstr;

using std::filesystem::perms;

std::string written(const std::string& content, perms allowed = perms::owner_read | perms::owner_write) {
  static const test::ScratchFolder folder;
  static int files = 0;
  const std::string path = folder / std::to_string(files++);
  std::ofstream(path, std::ios::binary) << content;
  std::filesystem::permissions(path, allowed);
  return path;
}

std::string complaint_about(const std::string& path) {
  try {
    (void)secret_from_file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "no complaint";
}

TEST(Secret, IsTheSame_WithAndWithoutNewlineAtTheEnd) {
  const std::string plain = "sixteen bytes or more";
  EXPECT_EQ(secret_from_file(written(plain)), secret_from_file(written(plain + "\r\n")));
  EXPECT_NE(secret_from_file(written(plain)), secret_from_file(written(plain + " ")));
  EXPECT_NE(secret_from_file(written(plain + std::string("\0a", 2))),
            secret_from_file(written(plain + std::string("\0b", 2))));
}

TEST(Secret, NamesTheFile_WhenItCannotServe) {
  EXPECT_THAT(complaint_about("/nowhere/at/all"), HasSubstr("SINEW_SECRET_FILE=/nowhere/at/all: cannot be read"));
  EXPECT_THAT(complaint_about(testing::TempDir()), HasSubstr("cannot be read"));
  EXPECT_THAT(complaint_about(written("")), HasSubstr("holds 0 bytes"));
  EXPECT_THAT(complaint_about(written("too short\n")), HasSubstr("holds 9 bytes, expected at least 16"));
}

TEST(Secret, WarnsOnce_WhenEveryUserCanReadIt) {
  const std::string path = written("sixteen bytes or more", perms::owner_read | perms::others_read);
  test::ExpectLog told(log::Level::Warning, path + ": every user of this host can read it");
  EXPECT_EQ(secret_from_file(path), secret_from_file(path));
  EXPECT_EQ(told.lines().size(), 1u);
}

TEST(Secret, IsRandom_WhenMade) { EXPECT_NE(random_secret(), random_secret()); }

}  // namespace
}  // namespace sinew
