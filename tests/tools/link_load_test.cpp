#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/tools/bench/report/link_load.hpp>

namespace sinew::tools {
namespace {

const LinkLoad kSame{"nic out", 16, "nic out 3 of host 0", {1600, 100, 16}, LinkLoad::Bytes{1600, 100, 16}};

TEST(LinkLoad, IsCountedBesideSimulated) {
  EXPECT_FALSE(kSame.differs());
  EXPECT_EQ(
      to_text(kSame),
      "#    16  nic out   counted 1600 bytes by 16 links, 100 at most (nic out 3 of host 0); simulated: the same\n");
}

TEST(LinkLoad, Differs_WhereAnyNumberDoes) {
  for (const LinkLoad::Bytes other : {LinkLoad::Bytes{1601, 100, 16}, {1600, 101, 16}, {1600, 100, 15}}) {
    LinkLoad load = kSame;
    load.simulated = other;
    EXPECT_TRUE(load.differs());
    EXPECT_THAT(to_text(load), testing::HasSubstr(": DIFFERS\n"));
  }
}

TEST(LinkLoad, IsNoDifference_WhereTheSimulatorKnowsNothing) {
  LinkLoad load = kSame;
  load.simulated.reset();
  EXPECT_FALSE(load.differs());
  EXPECT_THAT(to_text(load), testing::EndsWith("(nic out 3 of host 0)\n"));
}

}  // namespace
}  // namespace sinew::tools
