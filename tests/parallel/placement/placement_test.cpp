#include <gtest/gtest.h>

#include <sinew/parallel/placement/placement.hpp>

#include "support/worlds.hpp"

namespace sinew::parallel::test {
namespace {

using Entries = std::vector<Placements::Entry>;

TEST(Placement, IsWrittenAsDocumented) {
  EXPECT_EQ(to_string(Placement(Replicate{})), "Replicate");
  EXPECT_EQ(to_string(Placement(Shard{1, {}})), "Shard(1)");
  EXPECT_EQ(to_string(Placement(Shard{0, {0, 3, 8}})), "Shard(0: 0, 3, 8)");
  EXPECT_EQ(to_string(Placement(Partial{ReduceOp::Sum})), "Partial(sum)");
  EXPECT_EQ(Placements(Entries{{"dp", Shard{}}, {"tp", Partial{}}}).to_string(), "dp: Shard(0), tp: Partial(sum)");
  EXPECT_EQ(Placements().to_string(), "replicated");
}

TEST(Placements, KeepTheOrderAndForgetWhatReplicates) {
  const Placements placements(Entries{{"tp", Shard{0, {}}}, {"cp", Replicate{}}, {"dp", Shard{0, {}}}});
  EXPECT_EQ(placements.to_string(), "tp: Shard(0), dp: Shard(0)");
  EXPECT_EQ(placements.along("cp"), Placement(Replicate{}));
  EXPECT_EQ(placements.along("nowhere"), Placement(Replicate{}));
  EXPECT_EQ(placements.along("dp"), Placement(Shard{}));
}

TEST(Placements, PutWhatChangesLast) {
  const Placements placements(Entries{{"tp", Shard{0, {}}}, {"dp", Shard{0, {}}}});
  EXPECT_EQ(placements.with("tp", Shard{1, {}}).to_string(), "dp: Shard(0), tp: Shard(1)");
  EXPECT_EQ(placements.with("tp", Shard{0, {}}), placements);
  EXPECT_EQ(placements.with("dp", Replicate{}).to_string(), "tp: Shard(0)");
  EXPECT_EQ(placements.with("cp", Partial{}).to_string(), "tp: Shard(0), dp: Shard(0), cp: Partial(sum)");
  EXPECT_EQ(placements.with("cp", Replicate{}), placements);
}

TEST(Placements, RefuseAnAxisThatIsNamedTwice) {
  EXPECT_EQ(sinew::test::complaint([] {
              Placements(Entries{{"dp", Shard{}}, {"tp", Shard{}}, {"dp", Partial{}}});
            }),
            "placements: axis dp has both Shard(0) and Partial(sum); expected one");
}

}  // namespace
}  // namespace sinew::parallel::test
