#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/prove.hpp>

namespace sinew {
namespace {

constexpr CollectiveDesc kSum{.collective = Collective::AllReduce, .dtype = DType::F32, .count = 8};

TEST(Prove, FindsEveryAlgorithmRight) {
  for (const Algorithm& a : all_algorithms()) {
    CollectiveDesc desc = kSum;
    desc.collective = a.collective;
    if (!a.supports(desc, 5).ok) continue;
    EXPECT_TRUE(prove(a, desc, 5).ok()) << a.name;
  }
}

TEST(Prove, NamesAlgorithmAndRank_WhenAContributionIsMissing) {
  Algorithm forgetful = *find_algorithm(Collective::AllReduce, "ring");
  forgetful.name = "forgetful";
  forgetful.build = [](const CollectiveDesc& desc, int rank, int ranks, bool in_place) {
    Program p = find_algorithm(Collective::AllReduce, "ring")->build(desc, rank, ranks, in_place);
    for (Step& s : p.steps) {
      if (rank == 2 && s.op == Op::Recv && s.a.count > 0) s.a.count = 0;  // takes the message, adds nothing
    }
    return p;
  };
  const Status status = prove(forgetful, kSum, 4);
  EXPECT_EQ(status.code(), Code::Aborted);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("forgetful for all_reduce(f32, sum, count 8) on 4 ranks"));
}

TEST(Prove, LeavesLargeGroupsAlone) {
  Algorithm broken = *find_algorithm(Collective::AllReduce, "ring");
  broken.build = [](const CollectiveDesc&, int, int, bool) { return Program{}; };
  EXPECT_FALSE(prove(broken, kSum, 64).ok());
  EXPECT_TRUE(prove(broken, kSum, 65).ok());
}

}  // namespace
}  // namespace sinew
