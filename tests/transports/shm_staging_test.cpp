#include <gtest/gtest.h>

#include <sinew/transports/shm/offload/staging.hpp>

namespace sinew::shm {
namespace {

constexpr std::size_t kSlotsBytes = slots_bytes(2);

std::size_t take(Staging& staging, std::uint64_t bytes, std::uint64_t sequence) {
  return staging.take(staging.find(bytes), bytes, sequence);
}

TEST(Staging, LaysShortCallsSideBySide_BeforeOneMustBeFinished) {
  Staging staging(kSlotsBytes);
  constexpr std::uint64_t kBytes = 3 * kUnitBytes - 5;
  constexpr std::uint64_t kCalls = kSlotsBytes / (3 * kUnitBytes);
  for (std::uint64_t call = 1; call <= kCalls; ++call) {
    EXPECT_EQ(staging.find(kBytes).used_by, 0U);
    EXPECT_EQ(take(staging, kBytes, call), (call - 1) * 3 * kUnitBytes);
  }
  EXPECT_EQ(staging.find(kBytes).used_by, 1U);
}

TEST(Staging, BeginsAgain_WhereTheRestDoesNotHoldACall) {
  Staging staging(kSlotsBytes);
  std::uint64_t call = 1;
  EXPECT_EQ(take(staging, 1, call), 0U);
  std::size_t at = kUnitBytes;
  for (; at + kSlotMostBytes <= kSlotsBytes; at += kSlotMostBytes) EXPECT_EQ(take(staging, kSlotMostBytes, ++call), at);
  EXPECT_EQ(take(staging, kSlotMostBytes, ++call), 0U);
  EXPECT_EQ(take(staging, kUnitBytes, ++call), kSlotMostBytes);
}

TEST(Staging, WaitsForTheLastOfThoseThatLieInTheWay) {
  Staging staging(kSlotsBytes);
  for (std::uint64_t call = 1; call <= kSlotsBytes / kUnitBytes; ++call) take(staging, kUnitBytes, call);
  const Staging::Place place = staging.find(4 * kUnitBytes);
  EXPECT_EQ(place.unit, 0U);
  EXPECT_EQ(place.used_by, 4U);
}

}  // namespace
}  // namespace sinew::shm
