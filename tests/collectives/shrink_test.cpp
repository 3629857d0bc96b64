#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/collectives/control/survival/survivors.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <support/ranks.hpp>
#include <support/worlds.hpp>

// Ranks die; the others go on together.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class Shrink : public testing::TestWithParam<const char*> {
 protected:
  WorldOptions options() const { return only(GetParam()); }

  /// All but `dead` must end well.
  void run(int ranks, const std::set<int>& dead, const RankBody& body) const {
    const std::vector<int> ends = fork_ranks(ranks, body, seconds(60));
    for (int r = 0; r < ranks; ++r) {
      const int end = ends[static_cast<std::size_t>(r)];
      if (dead.contains(r)) {
        EXPECT_TRUE(WIFSIGNALED(end)) << "rank " << r << " should have died";
      } else {
        EXPECT_TRUE(WIFEXITED(end) && WEXITSTATUS(end) == 0) << "rank " << r << ": wait status " << end;
      }
    }
  }
};

/// Correct collectives of several kinds and sizes.
void work_together(Communicator& c, int calls) {
  const int n = c.size();
  for (int call = 0; call < calls; ++call) {
    std::vector<float> data(call % 3 == 0 ? 2 : 40'000, static_cast<float>(c.rank() + call));
    c.all_reduce(std::span(data)).get();
    require(data.back() == static_cast<float>(n * (n - 1) / 2 + n * call), "wrong sum");
    std::vector<int> mine{c.rank() * 7 + call}, all(static_cast<std::size_t>(n));
    c.all_gather(std::span(mine), std::span(all)).get();
    require(all.back() == (n - 1) * 7 + call, "wrong gathering");
  }
}

/// Calls that all ranks have left: a death ends even those that need nothing more of the dead.
void settle(World& world, const Exchange& exchange) {
  work_together(world.communicator(), 1);
  static_cast<void>(exchange.all_gather({}));
}

Status end_of_sums(Communicator& c) {
  std::vector<float> data(1000);
  const Deadline bound = Deadline::after(seconds(20));
  while (!bound.passed()) {
    const Status status = c.all_reduce(std::span(data)).wait(Deadline::after(seconds(20)));
    if (!status.ok()) return status;
  }
  return {Code::Timeout, "the sums never ended"};
}

void die_in_a_collective(World& world) {
  std::vector<float> data(1000);
  const Work unfinished = world.communicator().all_reduce(std::span(data));
  ::kill(::getpid(), SIGKILL);
}

TEST_P(Shrink, SurvivorsGoOn_WhoeverDies) {
  for (const int victim : {0, 1, 3}) {
    run(4, {victim}, [&](const Exchange& exchange) {
      World world = World::create(exchange, options());
      settle(world, exchange);
      if (world.rank() == victim) die_in_a_collective(world);
      const Status status = end_of_sums(world.communicator());
      EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
      EXPECT_EQ(status.rank(), victim);
      const int before = world.rank();
      world = world.shrink();
      EXPECT_EQ(world.size(), 3);
      EXPECT_EQ(world.rank(), before - (before > victim ? 1 : 0));
      work_together(world.communicator(), 100);
    });
    if (HasFailure()) return;
  }
}

TEST_P(Shrink, GoesOnAgainAndAgain_UntilOneIsLeft) {
  run(4, {0, 1, 2}, [&](const Exchange& exchange) {
    World world = World::create(exchange, options());
    for (int left = 4; left > 1; --left) {
      ASSERT_EQ(world.size(), left);
      Communicator part;
      try {
        work_together(world.communicator(), 10);
        part = world.communicator().split(world.rank() == 1 ? 1 : 0);
        work_together(part, 1);
      } catch (const Error& e) {  // rank 0 may be done, and dead, before others
        EXPECT_EQ(e.code(), Code::PeerLost);
      }
      if (world.rank() == 0) die_in_a_collective(world);
      EXPECT_EQ(end_of_sums(world.communicator()).code(), Code::PeerLost);
      part = {};
      world = world.shrink();
    }
    EXPECT_EQ(world.size(), 1);
    work_together(world.communicator(), 10);
  });
}

/// The second victim dies at some moment of shrink, the one who leads it too.
TEST_P(Shrink, LeavesOutWhoDiesMeanwhile) {
  const int first = 3;
  for (const int second : {0, 1}) {
    for (const int delay_us : {0, 500, 1000, 2000, 4000, 8000, 16000}) {
      SCOPED_TRACE(std::to_string(second) + " after " + std::to_string(delay_us));
      run(4, {first, second}, [&](const Exchange& exchange) {
        World world = World::create(exchange, options());
        settle(world, exchange);
        const int me = world.rank();
        if (me == first) die_in_a_collective(world);
        EXPECT_EQ(end_of_sums(world.communicator()).code(), Code::PeerLost);
        std::thread killer;
        if (me == second) {
          killer = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
            ::kill(::getpid(), SIGKILL);
          });
        }
        // It may have died after all had agreed.
        for (world = world.shrink(); world.size() > 2; world = world.shrink()) {
          const Status status = end_of_sums(world.communicator());
          EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
        }
        work_together(world.communicator(), 20);
        if (me == second) killer.join();
      });
      if (HasFailure()) return;  // a forked rank would inherit it
    }
  }
}

/// A rank whose own group lost nobody may hear of the death by another's shrink alone.
TEST_P(Shrink, IsDueToo_WhereAGroupLostNobody) {
  for (int round = 0; round < 5; ++round) {
    run(4, {3}, [&](const Exchange& exchange) {
      World world = World::create(exchange, options());
      Communicator half = world.communicator().split(world.rank() % 2);
      settle(world, exchange);
      if (world.rank() == 3) die_in_a_collective(world);
      const Status status = end_of_sums(half);
      EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3"));
      world = world.shrink();
      EXPECT_EQ(world.size(), 3);
      work_together(world.communicator(), 3);
    });
    if (HasFailure()) return;
  }
}

/// Those whose own group lost nobody are told of the death, whatever had ended the World's communicator before it.
TEST_P(Shrink, NamesTheLost_WhenTheWorldsCommunicatorHadEndedBefore) {
  run(4, {3}, [&](const Exchange& exchange) {
    World world = World::create(exchange, options());
    Communicator half = world.communicator().split(world.rank() % 2);
    settle(world, exchange);
    if (world.rank() == 0) world.communicator().abort("enough");
    EXPECT_EQ(end_of_sums(world.communicator()).code(), Code::Aborted);
    static_cast<void>(exchange.all_gather({}));
    if (world.rank() == 3) ::kill(::getpid(), SIGKILL);
    const Status status = end_of_sums(half);
    EXPECT_EQ(status.code(), Code::PeerLost) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3"));
    world = world.shrink();
    EXPECT_EQ(world.size(), 3);
  });
}

TEST_P(Shrink, MakesANewGeneration_WhereNobodyDied) {
  run(3, {}, [&](const Exchange& exchange) {
    World world = World::create(exchange, options());
    settle(world, exchange);
    World next = world.shrink();
    EXPECT_EQ(next.size(), 3);
    EXPECT_EQ(next.rank(), world.rank());
    work_together(next.communicator(), 10);
    const Status old = end_of_sums(world.communicator());
    EXPECT_EQ(old.code(), Code::Aborted);
    EXPECT_THAT(std::string(old.message()), HasSubstr("went on with the survivors"));
    work_together(next.communicator(), 1);
  });
}

TEST_P(Shrink, NamesWhoDidNotCome) {
  run(3, {}, [&](const Exchange& exchange) {
    WorldOptions impatient = options();
    impatient.config.timeout = seconds(1);
    World world = World::create(exchange, impatient);
    work_together(world.communicator(), 1);
    static_cast<void>(exchange.all_gather({}));
    if (world.rank() == 1) {
      std::this_thread::sleep_for(seconds(3));  // has something else to do
    } else {
      try {
        static_cast<void>(world.shrink());
        ADD_FAILURE() << "rank 1 was not there";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::Timeout);
        EXPECT_THAT(e.what(), HasSubstr("rank 1"));
      }
    }
    static_cast<void>(exchange.all_gather({}));
  });
}

/// Rank 1 gives the first ballot up and votes on a later one, all while rank 0 does not look.
TEST(Survivors, TryAgain_WhenAVoteHasBeenOvertaken) {
  run_as_threads(2, [](const Exchange& exchange) {
    const Bytes secret(32, std::byte{5});
    const Config config{.timeout = seconds(5), .host_id = "here"};
    HostPeers host(exchange, config.host_id, Deadline::after(seconds(20)));
    ControlService service(
        exchange, {.generation = 0, .host = host, .host_id = config.host_id, .secret = secret, .config = config});
    if (exchange.rank == 0) {
      int made = 0;
      Survivors(service, secret, config).agree([&](const Exchange&) { ++made; });
      EXPECT_EQ(made, 2);
    } else {
      const Deadline bound = Deadline::after(seconds(10));
      const auto proposal_after = [&](std::uint64_t number) {
        auto seen = service.proposal_of(0);
        for (; (!seen || seen->communicator <= number) && !bound.passed(); seen = service.proposal_of(0))
          std::this_thread::sleep_for(milliseconds(1));
        return seen ? seen->communicator : 0;
      };
      const std::uint64_t first = proposal_after(0);
      service.announce(Notice::of(NoticeKind::Vote, 1, {}, first + 1));
      service.announce(Notice::of(NoticeKind::Vote, 1, {}, proposal_after(first)));
    }
    static_cast<void>(exchange.all_gather({}));
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Shrink, testing::ValuesIn(transports_between_processes()),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace sinew::test
