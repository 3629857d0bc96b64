#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/runtime/continuations.hpp>

namespace sinew {
namespace {

using std::chrono::seconds;

TEST(Continuations, RunAFunction_WhileAllThreadsAreInsideFunctions) {
  constexpr int kDeep = 24;
  Continuations continuations;
  std::vector<std::promise<void>> reached(kDeep);
  std::vector<std::future<void>> is_reached;
  for (auto& promise : reached) is_reached.push_back(promise.get_future());
  std::atomic<int> returned{0};
  // Each function waits for the one that is posted after it.
  for (std::size_t i = 0; i < kDeep; ++i) {
    continuations.post([&, i] {
      reached[i].set_value();
      if (i + 1 < kDeep && is_reached[i + 1].wait_for(seconds(30)) == std::future_status::ready) ++returned;
    });
  }
  ASSERT_EQ(is_reached[0].wait_for(seconds(30)), std::future_status::ready);
  const auto begin = std::chrono::steady_clock::now();
  while (returned < kDeep - 1 && std::chrono::steady_clock::now() - begin < seconds(30)) std::this_thread::yield();
  EXPECT_EQ(returned, kDeep - 1);
}

TEST(Continuations, WaitForTheirFunctions_WhenTheyEnd) {
  std::atomic<int> returned{0};
  {
    Continuations continuations;
    for (int i = 0; i < 50; ++i) {
      continuations.post([&returned] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++returned;
      });
    }
  }
  EXPECT_EQ(returned, 50);
}

TEST(Continuations, MayEndInAFunctionOfTheirOwn) {
  std::promise<void> over;
  auto continuations = std::make_shared<Continuations>();
  Continuations& there = *continuations;
  there.post([continuations = std::move(continuations), &over]() mutable {
    continuations.reset();
    over.set_value();
  });
  EXPECT_EQ(over.get_future().wait_for(seconds(30)), std::future_status::ready);
}

TEST(Continuations, RunFunctionsThatAreDestroyedWithMorePosts) {
  std::promise<void> over;
  Continuations continuations;
  struct PostsAtItsEnd {
    Continuations& continuations;
    std::promise<void>& over;
    ~PostsAtItsEnd() {
      continuations.post([&over = over] { over.set_value(); });
    }
  };
  continuations.post([held = std::make_shared<PostsAtItsEnd>(continuations, over)] {});
  EXPECT_EQ(over.get_future().wait_for(seconds(30)), std::future_status::ready);
}

}  // namespace
}  // namespace sinew
