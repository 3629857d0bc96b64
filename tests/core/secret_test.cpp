#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/secret.hpp>
#include <support/scratch_folder.hpp>

namespace sinew {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_THAT(complaint_about(written("too short\n")), HasSubstr("holds 9 bytes, expected 16 random bytes or more"));
}

TEST(Secret, IsRefused_WhenOtherUsersCanReachIt) {
  const std::string plain = "sixteen bytes or more";
  EXPECT_THAT(complaint_about(written(plain, perms::owner_read | perms::others_read)),
              AllOf(HasSubstr("has mode 0404, expected 0600 or less"), HasSubstr("chmod 600 /")));
  EXPECT_THAT(complaint_about(written(plain, perms::owner_read | perms::owner_write | perms::group_read)),
              HasSubstr("has mode 0640"));
  EXPECT_THAT(complaint_about(written(plain, perms::owner_read | perms::others_write)), HasSubstr("has mode 0402"));
  EXPECT_EQ(secret_from_file(written(plain, perms::owner_read)), secret_from_file(written(plain)));
}

TEST(Secret, IsRefused_WhenAnotherUserOwnsTheFile) {
  const std::string path = written("sixteen bytes or more");
  constexpr uid_t kSomebody = 12345;
  if (::chown(path.c_str(), kSomebody, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_THAT(complaint_about(path), HasSubstr("belongs to user id 12345, expected a file of this user"));
}

TEST(Secret, IsRefused_WhenItIsAPipe_WithoutWaiting) {
  const test::ScratchFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(complaint_about(path), HasSubstr("is no regular file"));
}

TEST(Secret, IsJudgedBehindASymbolicLink) {
  const test::ScratchFolder folder;
  const std::string path = folder / "link";
  std::filesystem::create_symlink(written("sixteen bytes or more", perms::owner_read | perms::others_read), path);
  EXPECT_THAT(complaint_about(path), HasSubstr("has mode 0404"));
}

TEST(Secret, NeverAppearsInAComplaint) {
  EXPECT_THAT(complaint_about(written("hush, short\n")), Not(HasSubstr("hush")));
  EXPECT_THAT(complaint_about(written("hush, but open to all", perms::all)), Not(HasSubstr("hush")));
  EXPECT_THAT(complaint_about(written("hush" + std::string(4096, 'x'))),
              AllOf(HasSubstr("holds more than 4096 bytes"), Not(HasSubstr("hush"))));
}

TEST(Secret, IsRandom_WhenMade) { EXPECT_NE(random_secret(), random_secret()); }

}  // namespace
}  // namespace sinew
