#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "support/worlds.hpp"

// What Threads::Multiple allows, and what is for programs that use several threads: functions at a call's end, groups
// that their members make alone, receives from any rank.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ManyThreads : public testing::TestWithParam<const char*> {
 protected:
  static void run(int ranks, const Body& body) {
    WorldOptions options = only(GetParam());
    options.threads = Threads::Multiple;
    in_processes(ranks, options, body);
  }
};

/// Sums that are right, on a communicator of one thread's own.
void sum_for_a_while(Communicator& group, int calls) {
  for (int i = 0; i < calls; ++i) {
    const std::size_t count = i % 50 == 49 ? 100'000 : 1 + static_cast<std::size_t>(i % 7);
    std::vector<std::int64_t> data(count, group.rank() + i);
    Work work = group.all_reduce(data);
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    work.get();
    const std::int64_t sum = group.size() * (group.size() - 1) / 2 + group.size() * static_cast<std::int64_t>(i);
    require(std::ranges::all_of(data, [&](std::int64_t v) { return v == sum; }), fmt::format("call {}", i));
  }
}

TEST_P(ManyThreads, EachSumsOnItsOwnCommunicator) {
  run(3, [](World& world) {
    constexpr int kThreads = 4;
    std::vector<Communicator> groups;
    for (int t = 0; t < kThreads; ++t) groups.push_back(world.communicator().split(0, 0, {}, fmt::format("t{}", t)));
    std::vector<std::future<void>> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.push_back(std::async(std::launch::async,
                                   [&group = groups[static_cast<std::size_t>(t)]] { sum_for_a_while(group, 300); }));
    }
    for (auto& t : threads) t.get();
  });
}

TEST_P(ManyThreads, StartCallsInFunctionsAtACallsEnd_AndWaitForThemThere) {
  run(2, [](World& world) {
    constexpr std::size_t kInFlight = 8;
    std::vector<Communicator> groups;
    for (std::size_t i = 0; i < kInFlight; ++i) groups.push_back(world.communicator().split(0));
    std::vector<std::array<std::int32_t, 3>> data(kInFlight, {1, 10, 100});
    std::vector<std::future<void>> over;
    for (std::size_t i = 0; i < kInFlight; ++i) {
      auto promise = std::make_shared<std::promise<void>>();
      over.push_back(promise->get_future());
      Communicator& group = groups[i];
      auto& mine = data[i];
      group.all_reduce(std::span(mine).subspan(0, 1)).then([&group, &mine, promise](const Status& first) {
        require(first.ok(), std::string(first.message()));
        group.all_reduce(std::span(mine).subspan(1, 1)).get();
        group.all_reduce(std::span(mine).subspan(2, 1)).then([promise](const Status& third) {
          require(third.ok(), std::string(third.message()));
          promise->set_value();
        });
      });
    }
    for (auto& o : over) require(o.wait_for(seconds(30)) == std::future_status::ready, "a chain of calls hangs");
    for (const auto& mine : data) require(mine == std::array<std::int32_t, 3>{2, 20, 200}, "wrong sums");
  });
}

TEST_P(ManyThreads, MakeOverlappingGroupsInOppositeOrder) {
  run(3, [](World& world) {
    if (world.rank() == 2) return;  // no member: it neither calls nor notices
    const std::array<int, 2> members{0, 1};
    for (int round = 0; round < 20; ++round) {
      const auto make_and_use = [&world, &members, round](const char* name) {
        Communicator group = world.subgroup(members, fmt::format("{}{}", name, round));
        require(group.size() == 2 && group.rank() == world.rank(), "ranks of the group");
        sum_for_a_while(group, 5);
        return group;
      };
      // The first rank's threads begin in the one order, the second one's in the other.
      std::array<const char*, 2> names{"a", "b"};
      if (world.rank() == 1) std::swap(names[0], names[1]);
      auto first = std::async(std::launch::async, make_and_use, names[0]);
      auto second = std::async(std::launch::async, make_and_use, names[1]);
      Communicator a = first.get();
      Communicator b = second.get();
      sum_for_a_while(a.rank() == 0 ? a : b, 1);  // on rank 1 the names are exchanged
      sum_for_a_while(a.rank() == 0 ? b : a, 1);
    }
  });
}

TEST_P(ManyThreads, GroupsOfMembersAreInTheOrderGiven_AndMayBeMadeHundredsOfTimes) {
  run(3, [](World& world) {
    if (world.rank() == 1) return;
    const std::array<int, 2> members{2, 0};
    for (int i = 0; i < 300; ++i) {
      Communicator group = world.subgroup(members, "again");
      require(group.rank() == (world.rank() == 2 ? 0 : 1), "rank");
      std::array<std::int32_t, 1> data{group.rank() == 0 ? i : -1};
      group.broadcast(data, 0).get();
      require(data[0] == i, fmt::format("round {}", i));
    }
  });
}

TEST_P(ManyThreads, AGroupWithoutOneMemberEndsWithItsName_AndTheWorldGoesOn) {
  run(2, [](World& world) {
    const std::array<int, 2> members{0, 1};
    if (world.rank() == 0) {
      try {
        static_cast<void>(world.subgroup(members, "pair", Deadline::after(milliseconds(100))));
        require(false, "the group came to life without rank 1");
      } catch (const Error& e) {
        require(e.code() == Code::Timeout && e.rank() == 1, e.what());
        require_part(e.what(), "pair of ranks 0, 1: rank 1 has not come");
      }
    }
    sum_for_a_while(world.communicator(), 3);
    Communicator later = world.subgroup(members, "later");
    sum_for_a_while(later, 3);
  });
}

TEST_P(ManyThreads, ASubgroupNamesWhatIsWrongWithItsRanks) {
  run(2, [](World& world) {
    const auto with = [&world](std::vector<int> ranks) {
      return complaint([&] { static_cast<void>(world.subgroup(ranks, "x")); });
    };
    require_part(with({0, 2}), "subgroup of ranks 0, 2: expected ranks from 0 to 1");
    require_part(with({0, 1, 0}), "rank 0 is there twice");
    require_part(with({1 - world.rank()}), "which is not one of them");
  });
}

TEST_P(ManyThreads, ReceiveFromWhicheverRankSends) {
  run(4, [](World& world) {
    Communicator& all = world.communicator();
    constexpr int kEach = 25;
    if (all.rank() != 0) {
      for (int i = 0; i < kEach; ++i) {
        std::vector<std::int32_t> data(i % 5 == 4 ? 100'000 : 3, 1000 * all.rank() + i);
        all.send(data, 0, 7).get();
      }
    } else {
      std::array<int, 4> next{};
      std::vector<std::int32_t> data(100'000);
      for (int i = 0; i < 3 * kEach; ++i) {
        Work work = all.recv_any(data, 7);
        require(work.source() == -1 || work.done(), "a source before the end");
        require(work.wait().ok(), "the receive failed");
        const int from = work.source();
        require(from >= 1 && from <= 3, fmt::format("source {}", from));
        require(data[0] == 1000 * from + next[static_cast<std::size_t>(from)]++, fmt::format("{}", data[0]));
      }
    }
    // A receive whose sender is late sleeps meanwhile, and is woken.
    if (all.rank() == 3) {
      std::this_thread::sleep_for(milliseconds(60));
      std::array<std::int32_t, 1> one{42};
      all.send(one, 0, 8).get();
    } else if (all.rank() == 0) {
      std::array<std::int32_t, 1> one{};
      Work work = all.recv_any(one, 8);
      require(work.wait().ok() && work.source() == 3 && one[0] == 42, "the late message");
    }
    all.barrier().get();
  });
}

TEST_P(ManyThreads, AReceiveFromAnyRankEndsWithItsCommunicator) {
  run(2, [](World& world) {
    Communicator all = world.communicator().split(0);
    std::array<std::int32_t, 1> data{};
    if (all.rank() == 0) {
      const Status end = all.recv_any(data, 1).wait();
      require(end.code() == Code::Aborted, std::string(end.message()));
      require_part(std::string(end.message()), "no more");
    } else {
      std::this_thread::sleep_for(milliseconds(20));
      all.abort("no more");
    }
  });
}

TEST_P(ManyThreads, AbortHereEndsThisRanksCalls_AndNoneThatCanStillEnd) {
  run(2, [](World& world) {
    Communicator all = world.communicator().split(0);
    std::array<std::int32_t, 1> data{1};
    all.all_reduce(data).get();
    if (all.rank() == 0) {
      Work stuck = all.all_reduce(data);
      all.abort_here("enough");
      const Status end = stuck.wait(Deadline::after(seconds(10)));
      require(end.code() == Code::Aborted, std::string(end.message()));
      require_part(std::string(end.message()), "enough");
      require(all.barrier().wait().code() == Code::Aborted, "a later call");
    } else {
      std::this_thread::sleep_for(milliseconds(50));
      static_cast<void>(all.all_reduce(data).wait(Deadline::after(seconds(20))));  // rank 0 may have given its part
      const Status end = all.barrier().wait(Deadline::after(seconds(20)));
      require(end.code() == Code::Aborted && end.rank() == 0, std::string(end.message()));
    }
    sum_for_a_while(world.communicator(), 3);
  });
}

TEST_P(ManyThreads, AWaitingCallMayBeGivenAnotherSite) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    std::array<std::int32_t, 1> data{1};
    if (all.rank() == 0) {
      Work work = all.all_reduce(data);
      work.name_site("train.py:12");
      require_part(all.verdict(), "at train.py:12");
      work.get();
    } else {
      std::this_thread::sleep_for(milliseconds(300));
      all.all_reduce(data).get();
    }
  });
}

TEST_P(ManyThreads, ARankMaySendToItself) {
  run(2, [](World& world) {
    Communicator& all = world.communicator();
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
      std::vector<std::int32_t> given(count);
      std::vector<std::int32_t> got(count, -1);
      std::iota(given.begin(), given.end(), all.rank());
      Work received = all.recv(got, all.rank(), 5);
      all.send(given, all.rank(), 5).get();
      received.get();
      require(got == given, fmt::format("receive first, {}", count));
      std::ranges::fill(got, -1);
      Work sent = all.send(given, all.rank(), 6);
      all.recv(got, all.rank(), 6).get();
      sent.get();
      require(got == given, fmt::format("send first, {}", count));
    }
    std::array<std::int32_t, 2> data{1, 2};
    std::array<std::int32_t, 2> to{};
    all.sendrecv(data, all.rank(), to, all.rank()).get();
    require(data == to, "sendrecv");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, ManyThreads, testing::Values("shm", "tcp"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace sinew::test
