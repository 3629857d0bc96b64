#include <gtest/gtest.h>

#include <sinew/collectives/execution/scratch_pool.hpp>

namespace sinew {
namespace {

TEST(ScratchPool, GivesTheSmallestKeptBlockThatIsLargeEnough) {
  ScratchPool pool;
  ScratchPool::Block small = pool.take(100);
  ScratchPool::Block large = pool.take(1000);
  const std::byte* const at = small.memory.get();
  pool.give(std::move(large));
  pool.give(std::move(small));
  EXPECT_EQ(pool.bytes(), 1100U);
  const ScratchPool::Block again = pool.take(50);
  EXPECT_EQ(again.memory.get(), at);
  EXPECT_EQ(again.bytes, 100U);
  EXPECT_EQ(pool.bytes(), 1000U);
  EXPECT_EQ(pool.take(1001).bytes, 1001U);
}

TEST(ScratchPool, KeepsNoMoreThanItSays_AndTheLastUsed) {
  ScratchPool pool;
  pool.give(pool.take(ScratchPool::kKeptBytes + 1));
  EXPECT_EQ(pool.bytes(), 0U);
  ScratchPool::Block first = pool.take(ScratchPool::kKeptBytes / 2);
  ScratchPool::Block second = pool.take(ScratchPool::kKeptBytes / 2);
  ScratchPool::Block third = pool.take(ScratchPool::kKeptBytes / 4);
  const std::byte* const last = second.memory.get();
  pool.give(std::move(first));
  pool.give(std::move(second));
  pool.give(std::move(third));
  EXPECT_EQ(pool.bytes(), ScratchPool::kKeptBytes * 3 / 4);
  EXPECT_EQ(pool.take(ScratchPool::kKeptBytes / 2).memory.get(), last);
}

TEST(ScratchPool, HasNothingForThoseThatNeedNothing) {
  ScratchPool pool;
  EXPECT_EQ(pool.take(0).memory, nullptr);
  pool.give({});
  EXPECT_EQ(pool.bytes(), 0U);
}

}  // namespace
}  // namespace sinew
