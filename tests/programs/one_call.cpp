// Two ranks in one thread, so that the other's flag is there before this one looks: what callgrind counts is one
// all_reduce of 8 bytes and nothing of waiting. With --planted the call allocates, as a control. With --unnamed it has
// no source line, as calls from other languages have none.
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <sinew/collectives/world.hpp>

namespace {

using namespace sinew;

bool planted = false;
bool unnamed = false;
volatile std::size_t sink = 0;

World world_of(const Exchange& exchange) {
  WorldOptions options;
  options.config.transports = {"shm"};
  options.config.tune = {"all_reduce:0-:shm@shm"};
  return World::create(exchange, options);
}

}  // namespace

/// Named so that callgrind can be told to collect within it.
extern "C" [[gnu::noinline]] void measured_call(Communicator& all, std::array<double, 1>& data) {
  if (planted) sink = sink + std::make_unique<std::vector<int>>(100)->size();
  if (unnamed) {
    all.all_reduce(data, ReduceOp::Sum, {.where = {}}).get();
  } else {
    all.all_reduce(data).get();
  }
}

int main(int count, char** arguments) {
  planted = count > 1 && std::strcmp(arguments[1], "--planted") == 0;
  unnamed = count > 1 && std::strcmp(arguments[1], "--unnamed") == 0;
  const std::vector<Exchange> exchanges = thread_exchanges(2, std::chrono::seconds(60));
  std::optional<World> other;
  std::thread maker([&] { other.emplace(world_of(exchanges[1])); });
  World mine = world_of(exchanges[0]);
  maker.join();

  // The first calls make the plan and turn every slot over once.
  constexpr int kWarmUp = 32;
  constexpr int kCalls = 200;
  for (int call = 0; call < kWarmUp + kCalls; ++call) {
    std::array<double, 1> here{1};
    std::array<double, 1> there{2};
    Work theirs = other->communicator().all_reduce(there);
    if (call < kWarmUp) {
      mine.communicator().all_reduce(here).get();
    } else {
      measured_call(mine.communicator(), here);
    }
    theirs.get();
    if (here[0] != 3 || there[0] != 3) return 1;
  }
  // The Worlds end together: each waits for the other's goodbye.
  std::thread ender([&] { other.reset(); });
  ender.join();
  std::printf("%d\n", kCalls);
  return 0;
}
