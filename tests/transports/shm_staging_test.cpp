#include <gtest/gtest.h>

#include <sinew/transports/shm/staging.hpp>

namespace sinew::shm {
namespace {

TEST(Staging, UsesTheFirstPlaceAgain_AsSoonAsItIsFree) {
  Staging staging;
  for (std::uint64_t call = 1; call < 100; ++call) {
    const Staging::Place place = staging.find(5000, call - 1);
    EXPECT_EQ(place.unit, 0U);
    EXPECT_EQ(staging.take(place, 5000, call), 0U);
  }
}

TEST(Staging, HoldsManyShortCalls_BeforeOneMustBeFinished) {
  Staging staging;
  constexpr std::uint64_t kCalls = kSlotsBytes / kUnitBytes;
  for (std::uint64_t call = 1; call <= kCalls; ++call) {
    const Staging::Place place = staging.find(kUnitBytes, 0);
    EXPECT_EQ(place.used_by, 0U);
    EXPECT_EQ(staging.take(place, kUnitBytes, call), (call - 1) * kUnitBytes);
  }
  EXPECT_EQ(staging.find(1, 0).used_by, 1U);
  EXPECT_EQ(staging.find(1, 3).unit, 0U);
}

TEST(Staging, WaitsForTheOldestOfThoseThatLieInTheWay) {
  Staging staging;
  static_cast<void>(staging.take(staging.find(kSlotMostBytes, 0), kSlotMostBytes, 1));
  static_cast<void>(staging.take(staging.find(1, 0), 1, 2));
  const Staging::Place third = staging.find(kSlotMostBytes, 0);  // the second half is not free as a whole
  EXPECT_EQ(third.unit, 0U);
  EXPECT_EQ(third.used_by, 1U);
  static_cast<void>(staging.take(third, kSlotMostBytes, 3));
  const Staging::Place fourth = staging.find(kSlotMostBytes, 2);
  EXPECT_EQ(fourth.unit, kSlotMostBytes / kUnitBytes);
  EXPECT_EQ(fourth.used_by, 2U);
}

}  // namespace
}  // namespace sinew::shm
