#include <cerrno>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

namespace sinew {
namespace {

TEST(Code, HasANameOfItsOwn_ForEveryValue) {
  std::set<std::string_view> names;
  for (int c = 0; c <= static_cast<int>(Code::System); ++c) names.insert(name_of(static_cast<Code>(c)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::System) + 1);
  EXPECT_FALSE(names.contains("?"));
}

TEST(Status, IsOkAndSilent_ByDefault) {
  const Status s;
  EXPECT_TRUE(s.ok());
  EXPECT_EQ(s.message(), "");
  EXPECT_NO_THROW(s.require());
}

TEST(Status, ThrowsItsErrorWithRank_WhenRequired) {
  const Status s(Code::PeerLost, "rank 3 is gone", 3);
  const Status copy = s;
  EXPECT_FALSE(copy.ok());
  try {
    copy.require();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::PeerLost);
    EXPECT_EQ(e.rank(), 3);
    EXPECT_STREQ(e.what(), "rank 3 is gone");
  }
}

TEST(Status, IsNeitherOkNorFailed_WhilePending) {
  EXPECT_FALSE(Status::pending().ok());
  EXPECT_EQ(Status::pending().code(), Code::Pending);
}

TEST(ThrowErrno, CarriesTheSystemsText) {
  try {
    errno = ENOENT;
    throw_errno("opening /nowhere");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::System);
    EXPECT_STREQ(e.what(), "opening /nowhere: No such file or directory");
  }
}

}  // namespace
}  // namespace sinew
