#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <support/ranks.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

// Ranks 0 and 1 measure the machine while a World is made, and something goes wrong between them.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class Measuring : public testing::TestWithParam<const char*> {
 protected:
  /// With nothing measured before, and one second for the pair.
  WorldOptions options() const {
    WorldOptions o = only(GetParam());
    o.config.timeout = seconds(2);
    o.config.cache_file = folder_ / "costs.json";
    return o;
  }

 private:
  ScratchFolder folder_;
};

/// MakingRounds makes this of an empty contribution.
const Bytes kEmptyPayload(1);

using Round = std::function<std::vector<Bytes>(const Exchange& exchange, const Bytes& mine)>;

/// With `begins` called after the round in which nobody has costs to give, and `outcome` for the next.
Exchange around_measuring(const Exchange& exchange, const std::function<void()>& begins, const Round& outcome) {
  Exchange watched = exchange;
  watched.all_gather = [=, measures = false](const Bytes& mine) mutable {
    if (measures) return outcome(exchange, mine);
    std::vector<Bytes> all = exchange.all_gather(mine);
    measures = std::ranges::all_of(all, [](const Bytes& b) { return b == kEmptyPayload; });
    if (measures) begins();
    return all;
  };
  return watched;
}

std::vector<Bytes> gather(const Exchange& exchange, const Bytes& mine) { return exchange.all_gather(mine); }

/// What World::create throws.
Error refusal(const Exchange& exchange, const WorldOptions& options) {
  try {
    const World world = World::create(exchange, options);
  } catch (const Error& e) {
    return e;
  }
  return {Code::Ok, "no error"};
}

/// Three ranks, of which the second does not measure: what the others say of it.
void expect_named(const std::function<WorldOptions(int rank)>& options, const std::string& where) {
  std::promise<void> gave_up;
  run_as_threads(3, [&](const Exchange& exchange) {
    const auto absent = [&] {
      if (exchange.rank == 1) gave_up.get_future().wait();
    };
    // Rank 1 comes to the round, but did not measure.
    const Round outcome = [&](const Exchange& e, const Bytes& mine) {
      if (e.rank == 0) gave_up.set_value();
      if (e.rank != 1) return gather(e, mine);
      static_cast<void>(gather(e, WireWriter().rest(kEmptyPayload).bytes(Bytes(1)).take()));
      throw Error(Code::Cancelled, "has seen enough");
    };
    std::function<void()> begins = absent;
    if (exchange.rank == 1) {
      begins = [&] {
        absent();
        static_cast<void>(outcome(exchange, {}));
      };
    }
    const Error e = refusal(around_measuring(exchange, begins, outcome), options(exchange.rank));
    if (exchange.rank == 1) return;
    EXPECT_EQ(e.code(), Code::Timeout) << e.what();
    EXPECT_EQ(e.rank(), 1);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("measuring " + where), HasSubstr("rank 1 did not answer within 1000 ms")));
  });
}

TEST_P(Measuring, GoesOn_InAWorldOfManyThreads) {
  WorldOptions of_threads = options();
  of_threads.config.timeout = seconds(30);
  of_threads.threads = Threads::Multiple;
  in_processes(2, of_threads, [](World& world) {
    require_part(world.facts(), "measured just now");
    std::vector<std::int64_t> data(1000, world.rank());
    world.communicator().all_reduce(data).get();
    require(data.back() == 1, "the sum");
  });
}

TEST_P(Measuring, NamesWhoDoesNotAnswer_OnEveryRank) {
  expect_named([&](int) { return options(); }, "this machine");
}

TEST(MeasuringHosts, NamesWhoDoesNotAnswer_OnEveryRank) {
  const ScratchFolder folder;
  const auto options = [&](int rank) {
    WorldOptions o = only("tcp");
    o.config.timeout = seconds(2);
    o.config.cache_file = folder / "costs.json";
    o.config.host_id = "host of " + std::to_string(rank);
    return o;
  };
  expect_named(options, "between hosts 0 and 1");
}

/// A wait that sleeps gives the lock back, which must have been taken before.
TEST(MeasuringHosts, MayWaitLong_WhereThreadsShareTheWorld) {
  const ScratchFolder folder;
  run_as_threads(2, [&](const Exchange& exchange) {
    WorldOptions o = only("tcp");
    o.threads = Threads::Multiple;
    o.config.timeout = seconds(20);
    o.config.cache_file = folder / "costs.json";
    o.config.host_id = "host of " + std::to_string(exchange.rank);
    const auto comes_late = [&] {
      if (exchange.rank == 1) std::this_thread::sleep_for(milliseconds(100));
    };
    World world = World::create(around_measuring(exchange, comes_late, gather), std::move(o));
    std::array<float, 2> data{1, 2};
    world.communicator().all_reduce(data).get();
    EXPECT_EQ(data[1], 4);
  });
}

/// At some moment of it, in the middle of a message too.
TEST_P(Measuring, ComesToAnEnd_WhenThePeerIsStopped) {
  for (const int delay_ms : {0, 20, 50}) {
    SCOPED_TRACE(std::to_string(delay_ms) + " ms");
    const std::vector<int> ends = fork_ranks(2, [&](const Exchange& exchange) {
      Bytes mine(sizeof(pid_t));
      const pid_t me = ::getpid();
      std::memcpy(mine.data(), &me, sizeof me);
      pid_t other = 0;
      std::memcpy(&other, exchange.all_gather(mine)[1].data(), sizeof other);
      std::thread killer;
      const auto begins = [&] {
        if (exchange.rank == 1) return;
        killer = std::thread([&] {
          std::this_thread::sleep_for(milliseconds(delay_ms));
          ::kill(other, SIGSTOP);
        });
      };
      std::string told;
      const Round outcome = [&](const Exchange&, const Bytes& of_measuring) -> std::vector<Bytes> {
        told.assign(reinterpret_cast<const char*>(of_measuring.data()), of_measuring.size());
        throw Error(Code::Cancelled, "has seen enough");
      };
      const auto before = Clock::now();
      const Error e = refusal(around_measuring(exchange, begins, outcome), options());
      if (exchange.rank == 1) ::pause();
      killer.join();
      ::kill(other, SIGKILL);
      EXPECT_EQ(e.code(), Code::Cancelled) << e.what();
      if (told.find("measuring") == std::string::npos) return;  // all was measured before
      EXPECT_THAT(told, HasSubstr("rank 1 did not answer"));
      EXPECT_LT(Clock::now() - before, seconds(20));
    });
    EXPECT_EQ(ends[0], 0);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Measuring, testing::ValuesIn(transports_between_processes()),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace sinew::test
