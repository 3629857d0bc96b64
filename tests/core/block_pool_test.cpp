#include <cstring>

#include <gtest/gtest.h>

#include <sinew/core/transport/block_pool.hpp>

namespace sinew {
namespace {

TEST(BlockPool, GivesTheSameBlockAgainForTheSameClass) {
  BlockPool pool;
  void* small = pool.take(1);
  void* large = pool.take(5000);
  EXPECT_NE(small, large);
  std::memset(large, 1, 5000);
  pool.give(small, 1);
  pool.give(large, 5000);
  EXPECT_EQ(pool.take(64), small);
  void* again = pool.take(8000);
  EXPECT_EQ(again, large);
  pool.give(small, 64);
  pool.give(again, 8000);
}

}  // namespace
}  // namespace sinew
