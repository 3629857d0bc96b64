#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/system/use_word.hpp>

namespace sinew {
namespace {

using Entry = UseWord::Entry;

TEST(UseWord, RefusesEveryGeneration_BeforeItHoldsAnObject) {
  UseWord word;
  EXPECT_EQ(word.generation(), 0U);
  EXPECT_FALSE(word.holds(1));
  EXPECT_NE(word.enter(1), Entry::Entered);
  EXPECT_NE(word.enter_alone(1), Entry::Entered);
}

TEST(UseWord, RefusesTheOldGeneration_WhenItHoldsTheNextObject) {
  UseWord word;
  const auto first = word.open();
  ASSERT_EQ(word.close(first), Entry::Entered);
  word.retire();
  const auto second = word.open();
  EXPECT_NE(first, second);
  EXPECT_EQ(word.enter(first), Entry::Stale);
  EXPECT_EQ(word.enter_alone(first), Entry::Stale);
  EXPECT_EQ(word.close(first), Entry::Stale);
  EXPECT_TRUE(word.holds(second));
}

TEST(UseWord, IsBusy_WhileAnotherThreadIsInsideAlone) {
  UseWord word;
  const auto generation = word.open();
  ASSERT_EQ(word.enter_alone(generation), Entry::Entered);
  EXPECT_EQ(word.enter_alone(generation), Entry::Busy);
  EXPECT_EQ(word.close(generation), Entry::Busy);
  word.leave_alone(generation);
  EXPECT_EQ(word.enter_alone(generation), Entry::Entered);
}

TEST(UseWord, StaysAsItIs_WhenAThreadLeavesAnObjectThatIsGone) {
  UseWord word;
  const auto first = word.open();
  ASSERT_EQ(word.enter_alone(first), Entry::Entered);
  word.retire();  // as a child of fork does that frees the object within a call
  word.leave_alone(first);
  EXPECT_FALSE(word.holds(first));
  const auto second = word.open();
  ASSERT_EQ(word.enter_alone(second), Entry::Entered);
  word.leave_alone(first);
  EXPECT_EQ(word.enter_alone(second), Entry::Busy);
}

TEST(UseWord, CannotBeClosed_WhileSomebodyIsInside) {
  UseWord word;
  const auto generation = word.open();
  ASSERT_EQ(word.enter(generation), Entry::Entered);
  ASSERT_EQ(word.enter(generation), Entry::Entered);
  word.leave();
  EXPECT_EQ(word.close(generation), Entry::Busy);
  word.leave();
  EXPECT_EQ(word.close(generation), Entry::Entered);
  EXPECT_EQ(word.enter(generation), Entry::Busy);
  word.reopen(generation);
  EXPECT_EQ(word.enter(generation), Entry::Entered);
}

TEST(UseWord, LetsOneThreadInAtATime_WhenManyTry) {
  UseWord word;
  const auto generation = word.open();
  std::atomic<int> inside{0};
  std::atomic<int> entered{0};
  std::atomic<bool> together{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (word.enter_alone(generation) != Entry::Entered) continue;
        if (inside.fetch_add(1) != 0) together = true;
        inside.fetch_sub(1);
        entered.fetch_add(1);
        word.leave_alone(generation);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_FALSE(together);
  EXPECT_GT(entered, 0);
}

}  // namespace
}  // namespace sinew
