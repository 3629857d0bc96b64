#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/exchange.hpp>
#include <sinew/core/error.hpp>
#include <support/ranks.hpp>
#include <support/sanitized.hpp>
#include <support/worlds.hpp>

// A fork's child that ends everything it finds leaves its parent's World as it was.
namespace sinew::test {
namespace {

class Fork : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, Fork, testing::ValuesIn(transports_between_processes()),
                         [](const auto& p) { return p.param; });

void sum(World& world) {
  std::vector<float> data(300'000, 1.0F);
  world.communicator().all_reduce(std::span(data)).get();
  require(data.back() == 2.0F, "wrong sum");
}

TEST_P(Fork, ChildThatEndsWorldsAndMemory_HurtsNobody) {
  run_as_processes(2, [&](const Exchange& exchange) {
    std::optional<World> world(World::create(exchange, only(GetParam())));
    std::optional<Communicator> half(world->communicator().split(0));
    sum(*world);
    std::optional<Memory> memory;
    if (GetParam() == std::string_view("shm")) {
      memory.emplace(world->allocate(100'000));
      memory->buffer().data[99'999] = std::byte{3};
    }
    std::byte message{};
    Work pending;
    if (exchange.rank == 0) pending = world->communicator().recv({&message, 1}, 1);
    if (exchange.rank == 0) {
      const pid_t child = ::fork();
      if (child == 0) {
        bool refused = false;
        try {
          static_cast<void>(pending.wait());
        } catch (const Error& e) {
          refused = e.code() == Code::InvalidArgument;
        }
        pending = Work();
        memory.reset();
        half.reset();
        world.reset();
        ::_exit(refused ? 0 : 1);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    static_cast<void>(exchange.all_gather({}));
    const std::byte seven{7};
    if (exchange.rank == 1) world->communicator().send({&seven, 1}, 0).get();
    pending.get();
    EXPECT_EQ(message, exchange.rank == 0 ? seven : std::byte{});
    if (memory) {
      EXPECT_EQ(memory->buffer().data[99'999], std::byte{3});
    }
    sum(*world);
    static_cast<void>(exchange.all_gather({}));
  });
}

/// Another thread may hold locks of the process when the child is made.
TEST(ForkOfThreads, ChildMakesAWorld_ThatWasMadeWhileAnotherThreadMadeOne) {
  if (kSanitized)
    GTEST_SKIP() << "a sanitizer's allocator stays locked in a child that is made while a thread allocates";
  constexpr int kForks = 60;  // not a page
  const auto world_of_one = [] { return World::create(exchange_alone()); };
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) static_cast<void>(world_of_one());
  });
  int right = 0;
  int odd = 0;  // the wait status of the last child that did not exit with 0
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // a hang, not a slow machine
      ::_exit(world_of_one().size() == 1 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    right += status == 0 ? 1 : 0;
    if (status != 0) odd = status;
  }
  stop = true;
  other.join();
  EXPECT_EQ(right, kForks) << "wait status " << odd;
}

}  // namespace
}  // namespace sinew::test
