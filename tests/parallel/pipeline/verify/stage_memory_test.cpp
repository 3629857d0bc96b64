#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <sinew/parallel/pipeline/verify/stage_memory.hpp>

namespace sinew::parallel {
namespace {

using ::testing::HasSubstr;

/// Two stages of 100 and 10 bytes of parameters, whose gradients take as much.
TEST(StageMemory, CountsGatheredParametersAndGradientsOnTheirWay) {
  const std::vector<StageBytes> bytes{{100, 100, 50}, {10, 10, 5}};
  const auto most = [&](const std::string& csv) {
    const StagePeak peak = stage_memory(from_csv(csv, "by hand"), bytes).most.front();
    return std::pair(peak.bytes, peak.index);
  };
  // Both stages are gathered, then the gradients of stage 1 come, which are on their way when those of stage 0 come.
  EXPECT_EQ(most("0UNSHARD,1UNSHARD,0F0,1F0,1B0,1REDUCE,1RESHARD,0B0,0REDUCE,0RESHARD\n"), std::pair(210L, 7));
  // The gather of stage 0 ends after the sum of stage 1, which began before it.
  EXPECT_EQ(most("0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1REDUCE,1RESHARD,0UNSHARD,0B0,0REDUCE,0RESHARD\n"),
            std::pair(200L, 9));
  // A second sum of stage 0 needs room for this rank's part of it beside the first one.
  EXPECT_EQ(most("0UNSHARD,0F0,0F1,0B0,0REDUCE,0B1,0REDUCE,0RESHARD,1UNSHARD,1F0,1F1,1B0,1B1,1REDUCE,1RESHARD\n"),
            std::pair(250L, 6));
  // Stages without these actions are always there.
  EXPECT_EQ(most("0F0,1F0,1B0,0B0\n"), std::pair(110L, 3));
}

TEST(StageMemory, IsProved) {
  const PipelineSchedule schedule = with_sharding(with_messages(interleaved(2, 4, 2)), 1);
  const std::vector<StageBytes> bytes(4, {100, 0, 0});
  const PipelineVerdict right = prove(schedule, {.stages = bytes, .most_bytes = 100});
  EXPECT_TRUE(right);
  EXPECT_EQ(right.memory.most.at(1).parameters, 100);
  EXPECT_EQ(prove(schedule, {.stages = bytes, .most_bytes = 99}).reason,
            "rank 0: 0UNSHARD: 100 bytes of gathered parameters and whole gradients, expected at most 99");
  EXPECT_THAT(prove(schedule, {.stages = {{}, {}}}).reason, HasSubstr("bytes of 2 stages: expected those of 4"));
}

}  // namespace
}  // namespace sinew::parallel
