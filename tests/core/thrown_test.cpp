#include <new>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/base/thrown.hpp>

namespace sinew {
namespace {

struct OfNobody {};

template <class T>
Status status_after(const T& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return status_of_current_exception();
  }
}

TEST(Thrown, HasTheTextOfAnyException) {
  EXPECT_EQ(status_after(std::out_of_range("token 7")).message(), "token 7");
  EXPECT_EQ(status_after(std::string("out of data")).message(), "out of data");
  EXPECT_EQ(status_after(static_cast<const char*>("no file")).message(), "no file");
  EXPECT_EQ(status_after(42).message(), "an exception of type int was thrown");
  EXPECT_NE(status_after(OfNobody{}).message().find("OfNobody was thrown"), std::string_view::npos);
  EXPECT_TRUE(status_after(std::bad_alloc()).message().starts_with("out of memory"));
  EXPECT_EQ(status_after(42).code(), Code::System);
}

TEST(Thrown, KeepsTheCodeAndRankOfAnError) {
  const Status status = status_after(Error(Code::PeerLost, "gone", 3));
  EXPECT_EQ(status.code(), Code::PeerLost);
  EXPECT_EQ(status.rank(), 3);
}

}  // namespace
}  // namespace sinew
