#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/system/thread_bias.hpp>
#include <sinew/core/system/use_word.hpp>

namespace sinew {
namespace {

template <class F>
void on_another_thread(F f) {
  std::thread(f).join();
}

bool has_membarrier() {
  ThreadBias bias;
  bias.give();
  const bool entered = bias.enter();
  if (entered) ThreadBias::leave();
  return entered;
}

class ThreadBiasTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_membarrier()) GTEST_SKIP() << "this kernel has no membarrier, or it is refused here";
  }
};

TEST(ThreadBiasOfNobody, IsNotEntered_AndRevokedAtOnce) {
  ThreadBias bias;
  EXPECT_FALSE(bias.enter());
  EXPECT_TRUE(bias.revoke());
}

TEST_F(ThreadBiasTest, LetsOnlyItsThreadEnter) {
  ThreadBias bias;
  bias.give();
  on_another_thread([&] { EXPECT_FALSE(bias.enter()); });
  EXPECT_TRUE(bias.enter());
  ThreadBias::leave();
}

TEST_F(ThreadBiasTest, IsNotEnteredTwice_ByTheThreadThatIsInside) {
  ThreadBias bias;
  bias.give();
  ASSERT_TRUE(bias.enter());
  EXPECT_FALSE(bias.enter());
  EXPECT_FALSE(bias.revoke()) << "the thread itself is inside";
  ThreadBias::leave();
  EXPECT_TRUE(bias.enter());
  ThreadBias::leave();
}

TEST_F(ThreadBiasTest, IsInsideOneObjectAtATime) {
  ThreadBias first;
  ThreadBias second;
  first.give();
  second.give();
  ASSERT_TRUE(first.enter());
  EXPECT_FALSE(second.enter());
  EXPECT_TRUE(second.revoke());
  EXPECT_FALSE(first.revoke());
  ThreadBias::leave();
}

TEST_F(ThreadBiasTest, StaysWithItsThread_WhereThatIsInsideWhenAnotherRevokes) {
  ThreadBias bias;
  bias.give();
  ASSERT_TRUE(bias.enter());
  on_another_thread([&] { EXPECT_FALSE(bias.revoke()); });
  ThreadBias::leave();
  EXPECT_TRUE(bias.enter());
  ThreadBias::leave();
}

TEST_F(ThreadBiasTest, IsGoneForGood_WhenAnotherThreadHasRevokedIt) {
  ThreadBias bias;
  bias.give();
  on_another_thread([&] { EXPECT_TRUE(bias.revoke()); });
  EXPECT_FALSE(bias.enter());
  EXPECT_TRUE(bias.revoke());
}

TEST_F(ThreadBiasTest, OutlivesItsThread) {
  ThreadBias bias;
  on_another_thread([&] { bias.give(); });
  EXPECT_TRUE(bias.revoke());
}

// The owner enters by its bias until another thread has taken it away, and from then on by the word, as all others do.
TEST_F(ThreadBiasTest, LetsOneThreadInAtATime_WhileOthersRevoke) {
  constexpr int kRounds = 100;
  long biased = 0;
  for (int round = 0; round < kRounds; ++round) {
    ThreadBias bias;
    UseWord word;
    const auto generation = word.open();
    long uses = 0;  // not atomic: the thread sanitizer sees two threads inside
    std::atomic<long> entered{0};
    std::atomic<long> by_others{0};
    std::atomic<bool> owner_is_busy{false};
    const auto use_by_word = [&] {
      if (!bias.revoke() || word.enter_alone(generation) != UseWord::Entry::Entered) return false;
      ++uses;
      word.leave_alone(generation);
      ++entered;
      return true;
    };
    bias.give();
    std::vector<std::thread> others;
    for (int t = 0; t < 2; ++t) {
      others.emplace_back([&] {
        while (!owner_is_busy) std::this_thread::yield();
        for (int left = 50; left > 0;) {
          if (!use_by_word()) continue;
          ++by_others;
          --left;
        }
      });
    }
    for (long i = 0; by_others < 100; ++i) {
      if (i == 100) owner_is_busy = true;
      if (!bias.enter()) {
        use_by_word();
        continue;
      }
      ++uses;
      ++entered;
      ++biased;
      ThreadBias::leave();
    }
    for (std::thread& t : others) t.join();
    ASSERT_EQ(uses, entered) << "two threads were inside at the same time in round " << round;
  }
  EXPECT_GE(biased, kRounds * 100);
}

}  // namespace
}  // namespace sinew
