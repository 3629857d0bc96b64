#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/runtime/call_record.hpp>
#include <support/log_guard.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// What a failure ends, and nothing more: whole Worlds, one process per rank.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

/// Over one transport; a rank may die in it.
class Control : public testing::TestWithParam<const char*> {
 protected:
  WorldOptions options() const { return only(GetParam()); }

  std::vector<int> run(int ranks, const std::function<void(World&, const Exchange&)>& body) const {
    return fork_ranks(ranks, [&](const Exchange& exchange) {
      World world = World::create(exchange, options());
      body(world, exchange);
    });
  }
  /// All but `dead` must have ended well.
  static void expect_well(const std::vector<int>& ends, int dead = -1) {
    for (std::size_t r = 0; r < ends.size(); ++r) {
      if (static_cast<int>(r) == dead) continue;
      EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == 0) << "rank " << r << ": wait status " << ends[r];
    }
  }
};

/// The sum of rank + 1 over all ranks.
void sum_once(World& world, int value) {
  std::vector<float> data(1000, static_cast<float>(world.rank() + value));
  world.communicator().all_reduce(std::span(data)).get();
  const int n = world.size();
  require(data[999] == static_cast<float>(n * (n - 1) / 2 + n * value), "wrong sum");
}

/// A call that all ranks have left.
void settle(World& world, const Exchange& exchange) {
  sum_once(world, 1);
  static_cast<void>(exchange.all_gather({}));
}

/// What the calls of this rank end with; the time bound is for hangs.
Status end_of_sums(World& world) {
  std::vector<float> data(1000);
  const Deadline bound = Deadline::after(seconds(20));
  while (!bound.passed()) {
    const Status status = world.communicator().all_reduce(std::span(data)).wait(Deadline::after(seconds(10)));
    if (!status.ok()) return status;
  }
  return {Code::Timeout, "the sums never ended"};
}

std::vector<pid_t> pids(const Exchange& exchange) {
  Bytes mine(sizeof(pid_t));
  const pid_t me = ::getpid();
  std::memcpy(mine.data(), &me, sizeof me);
  std::vector<pid_t> all;
  for (const Bytes& b : exchange.all_gather(mine)) std::memcpy(&all.emplace_back(), b.data(), sizeof(pid_t));
  return all;
}

TEST_P(Control, NamesTheDeadRank_WhenItIsKilledInACollective) {
  for (const int victim : {0, 2}) {
    const std::vector<int> ends = run(3, [&](World& world, const Exchange& exchange) {
      settle(world, exchange);
      if (world.rank() == victim) {
        std::vector<float> data(1000);
        const Work unfinished = world.communicator().all_reduce(std::span(data));
        ::kill(::getpid(), SIGKILL);
      }
      const auto before = Clock::now();
      const Status status = end_of_sums(world);
      EXPECT_LT(Clock::now() - before, seconds(2));
      EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
      EXPECT_EQ(status.rank(), victim);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("rank " + std::to_string(victim) + " (host "), HasSubstr("killed by signal 9")));
      EXPECT_EQ(end_of_sums(world).code(), Code::PeerLost) << "later calls";
    });
    expect_well(ends, victim);
  }
}

TEST_P(Control, NamesTheDeadRank_WhenItIsKilledBetweenCalls) {
  const std::vector<int> ends = run(3, [&](World& world, const Exchange& exchange) {
    settle(world, exchange);
    if (world.rank() == 1) ::kill(::getpid(), SIGKILL);
    std::this_thread::sleep_for(milliseconds(300));
    const auto before = Clock::now();
    std::vector<float> data(1000);
    const Status status = world.communicator().all_reduce(std::span(data)).wait(Deadline::after(seconds(10)));
    EXPECT_LT(Clock::now() - before, seconds(2));
    EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
    EXPECT_EQ(status.rank(), 1);
  });
  expect_well(ends, 1);
}

/// As in a mesh: who meets a death in its row unwinds, and its column goes with it.
TEST_P(Control, NamesTheDeadRank_WhereARankThatMetItDestroysWhatOthersUse) {
  const std::vector<int> ends = run(4, [&](World& world, const Exchange& exchange) {
    std::optional<Communicator> row = world.communicator().split(world.rank() / 2);
    std::optional<Communicator> column = world.communicator().split(world.rank() % 2);
    Communicator living = world.communicator().split(world.rank() / 3);
    settle(world, exchange);
    if (world.rank() == 3) ::kill(::getpid(), SIGKILL);
    Communicator& used = world.rank() == 2 ? *row : *column;
    std::array<float, 4> data{};
    const Status status = used.all_reduce(data).wait(Deadline::after(seconds(10)));
    EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 3 (host "), HasSubstr("killed by signal 9")));
    if (world.rank() == 0) {
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 2 (1 in split 0 at control_test.cpp:"),
                                                       HasSubstr("destroyed the communicator, which all_reduce(f32")));
    }
    EXPECT_EQ(world.status().code(), Code::PeerLost);
    EXPECT_EQ(world.status().rank(), 3);
    row.reset();
    column.reset();
    static_cast<void>(living.barrier().wait(Deadline::after(seconds(10))));  // who shrinks first ends it in others
    World rest = world.shrink();
    sum_once(rest, 1);
  });
  expect_well(ends, 3);
}

TEST_P(Control, AbortReachesAllRanks_WithItsReason) {
  expect_well(run(3, [&](World& world, const Exchange& exchange) {
    settle(world, exchange);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(50));
      world.communicator().abort("out of data");
    }
    const Status status = end_of_sums(world);
    EXPECT_EQ(status.code(), Code::Aborted);
    EXPECT_EQ(status.rank(), 1);
    EXPECT_EQ(status.message(), "rank 1 aborted world of 3: out of data");
  }));
}

TEST_P(Control, AbortOfTheWorldReachesAllRanks) {
  expect_well(run(2, [&](World& world, const Exchange&) {
    if (world.rank() == 0) {
      EXPECT_TRUE(world.status().ok());
      world.abort("bad news");
    }
    const Status status = end_of_sums(world);
    EXPECT_EQ(status.code(), Code::Aborted);
    EXPECT_EQ(status.message(), "rank 0 aborted the world: bad news");
    EXPECT_EQ(world.status().message(), "rank 0 aborted the world: bad news");
  }));
}

TEST_P(Control, DeadlineEndsTheCommunicatorOnAllRanks_AndNamesWhoDidNotCome) {
  expect_well(run(3, [&](World& world, const Exchange& exchange) {
    sum_once(world, 1);
    if (world.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(1500));
      EXPECT_EQ(end_of_sums(world).code(), Code::Timeout);
    } else {
      std::vector<float> data(10);
      const Status status =
          world.communicator()
              .all_reduce(std::span(data), ReduceOp::Sum, {.deadline = Deadline::after(milliseconds(500))})
              .wait(Deadline::after(seconds(10)));
      EXPECT_EQ(status.code(), Code::Timeout);
      EXPECT_EQ(status.rank(), 2);
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("deadline passed"), HasSubstr("rank 2 is late")));
    }
    static_cast<void>(exchange.all_gather({}));
  }));
}

TEST_P(Control, WaitThatExpiresEndsNothing) {
  expect_well(run(2, [&](World& world, const Exchange& exchange) {
    std::vector<float> data(10, 1.0F);
    if (world.rank() == 1) static_cast<void>(exchange.all_gather({}));
    Work work = world.communicator().all_reduce(std::span(data));
    if (world.rank() == 0) {
      EXPECT_EQ(work.wait(Deadline::after(milliseconds(300))).code(), Code::Pending);
      EXPECT_THAT(world.communicator().verdict(),
                  AllOf(HasSubstr("rank 1 is late"), HasSubstr("it has made no call yet")));
      static_cast<void>(exchange.all_gather({}));
    }
    work.get();
    EXPECT_EQ(data[0], 2.0F);
    EXPECT_EQ(world.communicator().verdict(), "");
  }));
}

/// Rank 0 makes so many other calls meanwhile that its records have forgotten the one that waits.
TEST_P(Control, WaitEndsNothing_WhenItsOwnRecordIsForgotten) {
  expect_well(run(3, [&](World& world, const Exchange& exchange) {
    Communicator alone = world.communicator().split(world.rank());
    std::vector<float> data(10, 1.0F);
    if (world.rank() == 1) static_cast<void>(exchange.all_gather({}));
    Work work = world.communicator().all_reduce(std::span(data));
    if (world.rank() != 1) {
      for (std::size_t call = 0; call <= RecordPage::kRecords && world.rank() == 0; ++call) alone.barrier().get();
      const Status status = work.wait(Deadline::after(milliseconds(600)));
      EXPECT_EQ(status.code(), Code::Pending) << status.message();
      static_cast<void>(exchange.all_gather({}));
    }
    work.get();
    EXPECT_EQ(data[0], 3.0F);
  }));
}

TEST_P(Control, ConfiguredTimeoutNamesWhoDidNotCome) {
  expect_well(fork_ranks(2, [&](const Exchange& exchange) {
    WorldOptions impatient = options();
    World world = World::create(exchange, impatient);
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(600));
    std::vector<float> data(10, 1.0F);
    Work work = world.communicator().all_reduce(std::span(data));
    work.get();
  }));
}

TEST_P(Control, RankThatComputesOrIsStoppedIsLateNotDead) {
  expect_well(run(3, [&](World& world, const Exchange& exchange) {
    sum_once(world, 1);
    const std::vector<pid_t> processes = pids(exchange);
    if (world.rank() == 0) ::kill(processes[2], SIGSTOP);
    if (world.rank() == 1) std::this_thread::sleep_for(seconds(3));  // computes
    std::vector<float> data(1000, 1.0F);
    Work work = world.communicator().all_reduce(std::span(data));
    if (world.rank() == 0) {
      EXPECT_EQ(work.wait(Deadline::after(seconds(1))).code(), Code::Pending);
      EXPECT_THAT(world.communicator().verdict(),
                  AllOf(HasSubstr("rank 1 is late: it has been in no call for"), HasSubstr("rank 2 is late"),
                        HasSubstr("its process is stopped")));
      std::this_thread::sleep_for(seconds(3));
      ::kill(processes[2], SIGCONT);
    }
    EXPECT_TRUE(work.wait(Deadline::after(seconds(20))).ok());
    EXPECT_EQ(data[0], 3.0F);
    sum_once(world, 2);
  }));
}

TEST_P(Control, RankThatLeavesInOrderEndsOnlyWhatNeedsIt) {
  expect_well(fork_ranks(3, [&](const Exchange& exchange) {
    auto world = std::make_unique<World>(World::create(exchange, options()));
    sum_once(*world, 1);
    if (exchange.rank == 2) {
      world.reset();
      static_cast<void>(exchange.all_gather({}));
      return;
    }
    static_cast<void>(exchange.all_gather({}));
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_EQ(world->communicator().verdict(), "");
    const Status status = end_of_sums(*world);
    EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
    EXPECT_EQ(status.rank(), 2);
  }));
}

/// Its receiver judges it before it has looked at what has come.
TEST_P(Control, MessageArrives_AfterItsSenderHasLeft) {
  expect_well(fork_ranks(2, [&](const Exchange& exchange) {
    auto world = std::make_unique<World>(World::create(exchange, options()));
    std::array<float, 2> data{7, 7};
    const auto carry = [&] {
      return exchange.rank == 0 ? world->communicator().recv(data, 1) : world->communicator().send(data, 0);
    };
    carry().get();  // they have met
    if (exchange.rank == 1) {
      static_cast<void>(exchange.all_gather({}));
      carry().get();
      world.reset();
      static_cast<void>(exchange.all_gather({}));
      return;
    }
    data = {};
    Work work = carry();
    EXPECT_EQ(work.wait(Deadline::after(milliseconds(50))).code(), Code::Pending);  // the watch has seen it
    static_cast<void>(exchange.all_gather({}));
    static_cast<void>(exchange.all_gather({}));
    std::this_thread::sleep_for(milliseconds(250));  // so long a wait asks why
    world->poll();
    const Status status = work.wait(Deadline::after(seconds(10)));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(data[1], 7.0F);
    const Status later = carry().wait(Deadline::after(seconds(10)));
    EXPECT_EQ(later.code(), Code::PeerLost) << later.message();
    EXPECT_EQ(later.rank(), 1);
  }));
}

/// Rank 1 makes one call less than rank 0: nothing that befell another communicator excuses that.
TEST_P(Control, EndOfTheWorldsCommunicatorIsNotThatOfTheWorld) {
  expect_well(run(3, [&](World& world, const Exchange& exchange) {
    std::optional<Communicator> pair = world.communicator().split(world.rank() / 2);
    settle(world, exchange);
    if (world.rank() == 0) world.communicator().abort("enough");
    EXPECT_EQ(end_of_sums(world).code(), Code::Aborted);
    static_cast<void>(exchange.all_gather({}));
    if (world.rank() == 0) {
      std::array<float, 4> data{};
      const Status status = pair->all_reduce(data).wait(Deadline::after(seconds(10)));
      EXPECT_EQ(status.code(), Code::Mismatch) << status.message();
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: no call: it destroyed the communicator"));
    }
    pair.reset();
    static_cast<void>(exchange.all_gather({}));
  }));
}

struct Difference {
  const char* name;
  std::function<Work(Communicator&, std::span<float>)> rank_0;
  std::function<Work(Communicator&, std::span<float>)> others;
  const char* shown_0;
  const char* shown_others;
};

std::vector<Difference> differences() {
  using C = Communicator&;
  using S = std::span<float>;
  return {{"collective", [](C c, S s) { return c.all_reduce(s); }, [](C c, S) { return c.barrier(); },
           "all_reduce(f32, sum, count 8)", "barrier("},
          {"count", [](C c, S s) { return c.all_reduce(s); }, [](C c, S s) { return c.all_reduce(s.first(4)); },
           "count 8", "count 4"},
          {"operator", [](C c, S s) { return c.all_reduce(s); },
           [](C c, S s) { return c.all_reduce(s, ReduceOp::Max); }, "sum", "max"},
          {"root", [](C c, S s) { return c.broadcast(s, 0); }, [](C c, S s) { return c.broadcast(s, 1); }, "root 0",
           "root 1"},
          {"dtype", [](C c, S s) { return c.all_reduce(s); },
           [](C c, S s) { return c.all_reduce(std::span(reinterpret_cast<std::int32_t*>(s.data()), s.size())); },
           "all_reduce(f32", "all_reduce(i32"}};
}

TEST_P(Control, ShowsBothCallsOnAllRanks_WhenTheyDiffer) {
  for (const Difference& d : differences()) {
    SCOPED_TRACE(d.name);
    expect_well(run(3, [&](World& world, const Exchange& exchange) {
      settle(world, exchange);
      std::vector<float> data(8);
      Work work = world.rank() == 0 ? d.rank_0(world.communicator(), data) : d.others(world.communicator(), data);
      Status status = work.wait(Deadline::after(seconds(10)));
      // A rank may have had all it needed, and learns it in its next call.
      if (status.ok()) status = end_of_sums(world);
      EXPECT_EQ(status.code(), Code::Mismatch) << d.name << " on rank " << world.rank() << ": " << status.message();
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 0: "), HasSubstr(d.shown_0),
                                                       HasSubstr(d.shown_others), HasSubstr("control_test.cpp:")))
          << d.name;
      static_cast<void>(exchange.all_gather({}));
    }));
  }
}

/// Roots that only send need nothing from each other: nothing fails, nobody waits.
TEST_P(Control, FindsCallsThatWentWellOnBothSides) {
  expect_well(run(2, [&](World& world, const Exchange& exchange) {
    settle(world, exchange);
    std::vector<float> data(2);
    Status status = world.communicator().broadcast(std::span(data), world.rank()).wait(Deadline::after(seconds(5)));
    if (status.ok()) status = world.communicator().barrier().wait(Deadline::after(seconds(5)));
    EXPECT_EQ(status.code(), Code::Mismatch);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("call 2 on world of 2"), HasSubstr("rank 0: broadcast(f32, count 2, root 0)"),
                      HasSubstr("rank 1: broadcast(f32, count 2, root 1)")));
    static_cast<void>(exchange.all_gather({}));
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, Control, testing::ValuesIn(transports_between_processes()),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace sinew::test
