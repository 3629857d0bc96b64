#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/simulator/time_queue.hpp>

namespace sinew {
namespace {

using Entry = std::pair<Seconds, int>;

/// All that is left, in the order in which it comes.
std::vector<Entry> drained(TimeQueue<int>& queue) {
  std::vector<Entry> out;
  for (; !queue.empty(); queue.pop()) out.emplace_back(queue.at(), queue.next());
  return out;
}

TEST(TimeQueue, GivesTheSoonestFirst_AndOfOneTimeTheOneThatCameFirst) {
  TimeQueue<int> queue;
  for (const auto& [at, what] : std::vector<Entry>{{3, 0}, {1, 1}, {3, 2}, {2, 3}, {1, 4}}) queue.push(at, what);
  EXPECT_EQ(drained(queue), (std::vector<Entry>{{1, 1}, {1, 4}, {2, 3}, {3, 0}, {3, 2}}));
  EXPECT_TRUE(queue.empty());
}

TEST(TimeQueue, TakesMoreOfTheTimeThatIsUnderWay) {
  TimeQueue<int> queue;
  queue.push(1, 0);
  queue.push(1, 1);
  queue.pop();
  queue.push(1, 2);
  EXPECT_EQ(drained(queue), (std::vector<Entry>{{1, 1}, {1, 2}}));
  queue.push(1, 3);  // again, when it has come already
  EXPECT_EQ(drained(queue), (std::vector<Entry>{{1, 3}}));
}

/// Of few times, which meet in its lists, and of many more than it remembers.
TEST(TimeQueue, IsAStableSort_OfWhateverIsAdded) {
  for (const unsigned times : {3U, 100U, 1'000'000U}) {
    std::mt19937 random(times);
    TimeQueue<int> queue;
    std::vector<Entry> expected, found;
    const auto take = [&] {
      const auto soonest = std::ranges::min_element(expected, {}, &Entry::first);  // the first of them
      found.emplace_back(queue.at(), queue.next());
      ASSERT_EQ(found.back(), *soonest);
      expected.erase(soonest);
      queue.pop();
    };
    for (int i = 0; i < 3000; ++i) {
      const Seconds at = random() % times / 7.0;
      queue.push(at, i);
      expected.emplace_back(at, i);
      if (random() % 3 == 0) take();
    }
    std::ranges::stable_sort(expected, {}, &Entry::first);
    EXPECT_EQ(drained(queue), expected) << times;
  }
}

}  // namespace
}  // namespace sinew
