#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/choose_sharding.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

TEST(ChooseSharding, MovesAsLittleAsTheBudgetAllows) {
  const PipelineSchedule schedule = with_messages(looped_breadth_first(2, 4, 4));
  const std::vector<StageBytes> bytes(8, {100, 100, 10});
  const ShardingChoice all = choose_sharding(schedule, bytes);
  EXPECT_EQ(all.active, 4);
  EXPECT_EQ(all.moved_bytes, 800);
  const ShardingChoice fewer = choose_sharding(schedule, bytes, {.bytes = all.most_bytes - 1});
  EXPECT_LT(fewer.most_bytes, all.most_bytes);
  EXPECT_GT(fewer.moved_bytes, all.moved_bytes);
  EXPECT_THAT(fewer.why, HasSubstr("too much: 4 of 4 stages"));
  EXPECT_TRUE(prove(fewer.schedule, {.stages = bytes, .most_bytes = all.most_bytes - 1}));
  const std::string least = refusal_of([&] { (void)choose_sharding(schedule, bytes, {.bytes = 1}); });
  EXPECT_THAT(least, HasSubstr("a budget of 1 bytes for 'looped-bfs', expected 200 or more: 1 of 4 stages"));
  // Where gradients of a rank's stages are added up in turns, only sums after each microbatch make room.
  const PipelineSchedule turns = with_messages(interleaved(2, 8, 4));
  const ShardingChoice once = choose_sharding(turns, bytes, {.bytes = 800});
  EXPECT_EQ(once.reduces, ReduceEvery::Step);
  const ShardingChoice again = choose_sharding(turns, bytes, {.bytes = 350});
  EXPECT_EQ(again.reduces, ReduceEvery::MicroBatch);
  EXPECT_THAT(refusal_of([&] { (void)choose_sharding(turns, bytes, {.bytes = 350, .may_reduce_again = false}); }),
              HasSubstr("a budget of 350 bytes"));
  EXPECT_THAT(refusal_of([&] { (void)choose_sharding(turns, {{}}, {}); }), HasSubstr("bytes of 1 stages"));
}

TEST(ChooseSharding, GathersUnitsInTurn_WhereAStageIsTooMuch) {
  const PipelineSchedule schedule = with_messages(one_forward_one_backward(2, 4));
  const std::vector<StageBytes> bytes(2, {100, 100, 50}), by_unit(2, {20, 20, 10});
  EXPECT_EQ(choose_sharding(schedule, bytes, {.bytes = 200, .by_unit = by_unit}).active, 1);
  const ShardingChoice turns = choose_sharding(schedule, bytes, {.bytes = 199, .by_unit = by_unit});
  EXPECT_EQ(turns.active, 0);
  EXPECT_EQ(turns.reduces, ReduceEvery::Step);
  EXPECT_EQ(turns.most_bytes, 120);
  const ShardingChoice least = choose_sharding(schedule, bytes, {.bytes = 50, .by_unit = by_unit});
  EXPECT_EQ(least.reduces, ReduceEvery::MicroBatch);
  EXPECT_EQ(least.most_bytes, 50);
  EXPECT_EQ(least.moved_bytes, 8 * 100 + 4 * 100);
  EXPECT_THAT(refusal_of([&] { (void)choose_sharding(schedule, bytes, {.by_unit = {{}}}); }),
              HasSubstr("bytes by unit of 1 stages, expected those of 2"));
}

}  // namespace
}  // namespace sinew::parallel
