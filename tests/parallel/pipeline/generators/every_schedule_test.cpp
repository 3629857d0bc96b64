#include <cstdint>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>
#include <support/sanitized.hpp>

#include "../executor.hpp"

namespace sinew::parallel {
namespace {

constexpr std::int32_t kStride = sinew::test::kSanitized ? 9 : 1;  // every ninth schedule under a sanitizer

/// Calls check(schedule, text) for every schedule of that many ranks, micro-batches and virtual stages at most.
template <class Check>
void for_every_schedule(std::int32_t ranks, std::int32_t micro_batches, std::int32_t virtual_stages,
                        std::int32_t stride, Check&& check) {
  for (const NamedGenerator& g : generators()) {
    for (std::int32_t p = 1; p <= ranks; ++p) {
      for (std::int32_t m = 1 + p % stride; m <= micro_batches; m += stride) {
        for (std::int32_t v = g.least_virtual_stages; v <= g.virtual_stages(virtual_stages); ++v) {
          const std::string text =
              std::string(g.name) + " p " + std::to_string(p) + " m " + std::to_string(m) + " v " + std::to_string(v);
          check(g.make(p, m, v), text);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(EverySchedule, Runs_EvenWhereEachSendWaits) {
  for_every_schedule(16, 64, 4, kStride, [](const PipelineSchedule& schedule, const std::string& text) {
    const PipelineVerdict alone = prove(schedule, {.messages = false});
    ASSERT_TRUE(alone) << text << ": " << alone.reason;
    const PipelineVerdict verdict = prove(with_messages(schedule), {.most_under_way = 0});
    ASSERT_TRUE(verdict) << text << ": " << verdict.reason;
    EXPECT_EQ(alone.live.by_rank, verdict.live.by_rank) << text;
  });
}

TEST(EverySchedule, RunsWithAnyRoomForMessages_AndAllPasses) {
  for_every_schedule(
      16, 64, 4, sinew::test::kSanitized ? 31 : 7, [](const PipelineSchedule& schedule, const std::string& text) {
        const PipelineSchedule all = with_sharding(with_messages(with_recompute(schedule)), 2);
        for (const std::optional<std::int32_t> most : {std::optional<std::int32_t>(), {0}, {1}, {2}, {5}}) {
          const PipelineVerdict verdict = prove(all, {.most_under_way = most});
          ASSERT_TRUE(verdict) << text << ": " << verdict.reason;
        }
      });
}

TEST(EverySchedule, ComputesWhatOneProcessDoes) {
  std::mt19937 random(7);
  for_every_schedule(5, 11, 3, 1, [&](const PipelineSchedule& schedule, const std::string& text) {
    ASSERT_EQ(test::execute(with_messages(schedule), random, 0), "") << text;
    const PipelineSchedule all = with_sharding(with_messages(with_recompute(schedule)), 1);
    ASSERT_EQ(test::execute(all, random, random() % 3), "") << text;
    ASSERT_EQ(test::execute(all, random), "") << text;
  });
}

}  // namespace
}  // namespace sinew::parallel
