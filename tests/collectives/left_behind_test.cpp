#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// A communicator that ends while a peer, which computes or is stopped, has messages of it half done.
namespace sinew::test {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;

class LeftBehind : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, LeftBehind, testing::ValuesIn(transports_between_processes()),
                         [](const auto& p) { return p.param; });

void poll_some(World& world) {
  for (int i = 0; i < 100; ++i) world.poll();
}

TEST_P(LeftBehind, MessagesEndInMemoryThatIsStillThere) {
  run_as_processes(2, [&](const Exchange& exchange) {
    WorldOptions options = only(GetParam());
    options.config.timeout = std::chrono::seconds(3);
    World world = World::create(exchange, options);
    std::vector<std::byte> data(kBytes);
    std::byte last{};
    {
      Communicator half = world.communicator().split(0, world.rank());
      const std::span<std::byte> both[] = {std::span(data), std::span(&last, 1)};
      std::vector<Message> messages;
      for (const auto memory : both) {
        messages.push_back(world.rank() == 0 ? Message::send({memory.data(), memory.size()}, 1)
                                             : Message::recv({memory.data(), memory.size()}, 0));
      }
      { const Work forgotten = half.group(messages); }
      static_cast<void>(exchange.all_gather({}));
      poll_some(world);  // the messages meet
      static_cast<void>(exchange.all_gather({}));
      if (world.rank() == 0) poll_some(world);  // and some of their bytes leave
      if (world.rank() == 1) static_cast<void>(exchange.all_gather({}));
    }
    if (world.rank() == 0) static_cast<void>(exchange.all_gather({}));
    std::vector<float> ones(1000, 1.0F);
    world.communicator().all_reduce(std::span(ones)).get();
    EXPECT_EQ(ones[0], 2.0F);
    static_cast<void>(exchange.all_gather({}));
  });
}

}  // namespace
}  // namespace sinew::test
