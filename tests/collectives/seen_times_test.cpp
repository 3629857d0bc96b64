#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/selection/times/seen_times.hpp>
#include <sinew/core/error.hpp>

#include "support/scratch_folder.hpp"

namespace sinew {
namespace {

const SeenTimes::Call kCall{{8, 8}, "all_reduce", "nccl", "nccl"};

SeenTimes seen(const std::string& devices, const std::vector<Seconds>& times, std::uint64_t bytes = 1 << 20) {
  SeenTimes made{.devices = devices, .points = {}};
  for (const Seconds t : times) made.add(kCall, bytes, t);
  return made;
}

TEST(SeenTimes, AreTheShortestOfSeveral) {
  const SeenTimes times = seen("a GPU", {5e-5, 3e-5, 4e-5, 9e-5, 7e-5});
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 1 << 20).value_or(-1), 3e-5);
}

TEST(SeenTimes, SayNothing_OfTooFewCalls) {
  EXPECT_FALSE(seen("a GPU", {5e-5, 3e-5, 4e-5, 9e-5}).seconds(kCall, 1 << 20));
}

TEST(SeenTimes, HoldForSizesNearby_InProportionToTheBytes) {
  const SeenTimes times = seen("a GPU", std::vector<Seconds>(5, 1e-4), 1 << 20);
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 3 << 19).value_or(-1), 1.5e-4);
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 800'000).value_or(-1), 1e-4) << "starting takes as long";
  EXPECT_FALSE(times.seconds(kCall, 2 << 20));
  EXPECT_FALSE(times.seconds(kCall, 1 << 19));
  EXPECT_FALSE(times.seconds(kCall, 0));
}

TEST(SeenTimes, HoldForTheirCallsOnly) {
  const SeenTimes times = seen("a GPU", std::vector<Seconds>(5, 1e-4));
  for (const SeenTimes::Call& other :
       {SeenTimes::Call{{16}, "all_reduce", "nccl", "nccl"}, SeenTimes::Call{{8, 8}, "all_gather", "nccl", "nccl"},
        SeenTimes::Call{{8, 8}, "all_reduce", "cuda_ipc", "cuda_ipc"}})
    EXPECT_FALSE(times.seconds(other, 1 << 20)) << other.collective << other.algorithm;
}

TEST(SeenTimes, KeepTheSizeThatAClassSawFirst) {
  SeenTimes times = seen("a GPU", std::vector<Seconds>(5, 1e-4), 1 << 20);
  times.add(kCall, (1 << 20) + 4, 1e-6);
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 1 << 20).value_or(-1), 1e-4);
}

TEST(SeenTimes, AreReplacedByLaterOnes_ThatHaveEnoughCalls) {
  SeenTimes times = seen("a GPU", std::vector<Seconds>(5, 1e-4));
  times.replace_by(seen("a GPU", {1e-6, 1e-6}));
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 1 << 20).value_or(-1), 1e-4);
  times.replace_by(seen("a GPU", std::vector<Seconds>(6, 2e-4)));
  EXPECT_DOUBLE_EQ(times.seconds(kCall, 1 << 20).value_or(-1), 2e-4) << "the machine has become slower";
}

TEST(SeenTimes, AreTheSame_AfterTheirWayAsText) {
  const SeenTimes times = seen("NVIDIA H100, 18 NVLinks", {1e-4, 2e-4, 3e-4});
  EXPECT_EQ(seen_times_from(to_text(times)), times);
}

TEST(SeenTimes, RejectTextThatIsNone) {
  const std::string call = R"({"devices":"d","calls":[{"ranks_on_hosts":[2],"collective":"all_reduce","algorithm":"a",)"
                           R"("transport":"t","points":[)";
  EXPECT_NO_THROW(static_cast<void>(seen_times_from(call + "[8,1e-5,5]]}]}")));
  for (const std::string& text :
       {std::string(""), std::string("[]"), std::string("{}"), std::string(R"({"devices":1,"calls":[]})"),
        call + "[8,0,5]]}]}", call + "[8,-1,5]]}]}", call + "[8,1e9,5]]}]}", call + "[8,1e-5,0]]}]}",
        call + "[-8,1e-5,5]]}]}", call + "[8,1e-5]]}]}", call})
    EXPECT_THROW(static_cast<void>(seen_times_from(text)), Error) << text;
}

TEST(SeenTimes, StayInTheCostCache_ByTheKindOfDevices) {
  const test::ScratchFolder folder;
  const std::string file = folder / "costs.json";
  save_seen_times(file, seen("one kind", std::vector<Seconds>(5, 1e-4)));
  save_seen_times(file, seen("another kind", std::vector<Seconds>(5, 2e-4)));
  MeasuredCosts costs;
  costs.copy_bytes_per_s = costs.reduce_bytes_per_s = 1e9;
  save_costs(file, 2, costs);
  EXPECT_DOUBLE_EQ(load_seen_times(file, "one kind").seconds(kCall, 1 << 20).value_or(-1), 1e-4);
  EXPECT_DOUBLE_EQ(load_seen_times(file, "another kind").seconds(kCall, 1 << 20).value_or(-1), 2e-4);
  EXPECT_TRUE(load_seen_times(file, "a third kind").points.empty());
  EXPECT_TRUE(load_costs(file, 2).has_value()) << "the costs of the machine are there, too";
}

TEST(SeenTimes, LeaveAFileAlone_ThatIsNoCostCache) {
  const test::ScratchFolder folder;
  const std::string file = folder / "mine.txt";
  std::ofstream(file) << "mine";
  save_seen_times(file, seen("a kind", std::vector<Seconds>(5, 1e-4)));
  EXPECT_TRUE(load_seen_times(file, "a kind").points.empty());
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "mine");
}

}  // namespace
}  // namespace sinew
