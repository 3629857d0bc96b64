#include "hosts/relay/line.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

// Tests of what the relay between two hosts does to packets, without devices.
namespace sinew::test {
namespace {

using namespace std::chrono_literals;

constexpr int kPackets = 100'000;
constexpr std::size_t kBytes = 1500;
const Line::Time kStart = Line::Time() + 1h;

/// Says for each packet whether it is lost.
std::vector<bool> losses(const LineOptions& options) {
  Line line(options);
  std::vector<bool> lost;
  for (int p = 0; p < kPackets; ++p) lost.push_back(!line.arrival(kStart, kBytes));
  return lost;
}

TEST(Line, PassesEachPacketAtOnce_ByDefault) {
  Line line({});
  for (int p = 0; p < kPackets; ++p) {
    ASSERT_EQ(line.arrival(kStart + p * 1us, kBytes), kStart + p * 1us);
  }
  EXPECT_EQ(line.passed(), kPackets);
  EXPECT_EQ(line.lost() + line.overflowed(), 0U);
}

TEST(Line, DelaysEachPacketAlike) {
  Line line({.delay = 5ms});
  EXPECT_EQ(line.arrival(kStart, kBytes), kStart + 5ms);
  EXPECT_EQ(line.arrival(kStart + 1us, 1), kStart + 5ms + 1us);
}

TEST(Line, LosesTheGivenShare_AndTheSameForTheSameSeed) {
  const std::vector<bool> first = losses({.loss = 0.01, .seed = 3});
  const auto count = std::count(first.begin(), first.end(), true);
  // The standard deviation is 31.
  EXPECT_NEAR(static_cast<double>(count), 0.01 * kPackets, 160);
  EXPECT_EQ(losses({.loss = 0.01, .seed = 3}), first);
  EXPECT_NE(losses({.loss = 0.01, .seed = 4}), first);
}

TEST(Line, LosesAllOrNothing_AtTheEndsOfTheShare) {
  EXPECT_EQ(losses({.loss = 0}), std::vector<bool>(kPackets, false));
  EXPECT_EQ(losses({.loss = 1}), std::vector<bool>(kPackets, true));
}

TEST(Line, SpacesPacketsByTheRate_AndDropsWhatWouldWaitTooLong) {
  // 1500 bytes take 1 ms. A packet may wait for 10 ms, so the twelfth of a burst is dropped.
  Line line({.delay = 5ms, .bytes_per_s = 1.5e6, .queue = 10ms});
  for (int p = 1; p <= 11; ++p) ASSERT_EQ(line.arrival(kStart, kBytes), kStart + p * 1ms + 5ms);
  EXPECT_EQ(line.arrival(kStart, kBytes), std::nullopt);
  EXPECT_EQ(line.overflowed(), 1U);
  EXPECT_EQ(line.arrival(kStart + 20ms, kBytes), kStart + 21ms + 5ms);  // after a pause the line is idle again
}

}  // namespace
}  // namespace sinew::test
