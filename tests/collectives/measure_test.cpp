#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/selection/costs/cost_cache.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/world_state.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
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

/// Lets the ranks of a World make a second one: the first carries the rounds of the exchange.
Exchange exchange_over(World& world) {
  return {world.rank(), world.size(), [&world](const Bytes& mine) {
            Communicator& all = world.communicator();
            const auto size = static_cast<std::size_t>(world.size());
            std::vector<std::uint64_t> lengths(size);
            const std::vector<std::uint64_t> own{mine.size()};
            all.all_gather(own, lengths).get();
            const std::size_t most = *std::ranges::max_element(lengths);
            Bytes padded = mine;
            padded.resize(most);
            Bytes both(most * size);
            if (most > 0) all.all_gather(padded, both).get();
            std::vector<Bytes> parts;
            for (std::size_t r = 0; r < size; ++r) {
              const auto begin = both.begin() + static_cast<std::ptrdiff_t>(r * most);
              parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(lengths[r]));
            }
            return parts;
          }};
}

/// Costs that a job of two ranks has measured, and that a test makes doubtful.
class Healing : public testing::Test {
 protected:
  Healing() {
    WorldState::any_has_costs() =
        false;  // which processes forked here inherit: a World of an earlier test may have set it
    options_.config.timeout = seconds(30);
    options_.config.cache_file = folder_ / "costs.json";
    in_processes(2, options_, [](World& world) { require_part(world.costs(), "measured just now between two ranks"); });
  }
  MeasuredCosts costs() const {
    const auto found = load_costs(options_.config.cache_file, usable_cores());
    return found ? *found : MeasuredCosts{};
  }
  void keep(const MeasuredCosts& costs) const { save_costs(options_.config.cache_file, usable_cores(), costs); }
  /// The measured costs, marked as contradicted. `due`: the next job may measure them again.
  MeasuredCosts doubtful(const std::string& contradicted, bool due) const {
    MeasuredCosts changed = costs();
    changed.contradicted = contradicted;
    if (due) changed.again_at_s = 0;
    return changed;
  }

  ScratchFolder folder_;
  WorldOptions options_ = only("shm");
};

TEST_F(Healing, DoesNotMeasureAgain_WhatIsNotInDoubt) {
  MeasuredCosts all = costs();
  if (!all.offloads.contains("shm")) GTEST_SKIP() << "other programs had the cores while this machine was measured";
  EXPECT_GT(all.again_at_s, all.offloads_at_s + 500) << "ten minutes from then on";
  all.doubt.clear();
  all.unfinished.clear();
  all.again_at_s = 0;
  keep(all);
  in_processes(2, options_, [](World& world) {
    require_part(world.costs(), "measured on this machine (");
    require(world.costs().find("doubt") == std::string::npos, world.costs());
  });
  EXPECT_EQ(costs().again_at_s, 0);
}

TEST_F(Healing, MeasuresAgain_WhatCallsContradict) {
  keep(doubtful("calls took longer", true));
  in_processes(2, options_, [](World& world) {
    require_part(world.costs(), "measured just now between two ranks");
    std::vector<std::int64_t> data(1000, world.rank());
    world.communicator().all_reduce(data).get();
    require(data.back() == 1, "the sum");
  });
  const MeasuredCosts after = costs();
  EXPECT_GT(after.again_at_s, 0);
  if (!after.unfinished.contains("shm")) EXPECT_EQ(after.contradicted, "");
}

TEST_F(Healing, WaitsTenMinutes_AndSaysSo) {
  keep(doubtful("calls took longer", false));
  in_processes(2, options_, [](World& world) {
    require_part(world.costs(), "measured on this machine (");
    require_part(world.costs(), "in doubt: ");
    require_part(world.costs(), "calls took longer");
    const Plan plan = world.communicator().plan({.collective = Collective::AllReduce, .count = 1000});
    require_part(plan.explain(), "calls took longer");
  });
  EXPECT_EQ(costs().contradicted, "calls took longer");
}

TEST_F(Healing, IsForTheFirstWorldOfAProcess) {
  const MeasuredCosts all = doubtful("calls took longer", true);
  in_processes(2, options_, [&](World& world) {
    if (world.rank() == 0) keep(all);
    world.communicator().barrier().get();
    const World second = World::create(exchange_over(world), options_);
    require_part(second.costs(), "in doubt: ");
    require_part(second.costs(), "calls took longer");
  });
  EXPECT_EQ(costs().contradicted, "calls took longer");
}

TEST_F(Healing, IsNotForAWorld_ThatMayNotMeasure) {
  WorldOptions beside = options_;
  beside.measures = false;
  keep(doubtful("calls took longer", true));
  in_processes(2, beside, [](World& world) { require_part(world.costs(), "in doubt: "); });
  std::filesystem::remove(options_.config.cache_file);
  in_processes(2, beside, [](World& world) { require(world.costs() == "defaults", world.costs()); });
}

/// The cache predicts a second for each call, which takes microseconds.
TEST_F(Healing, FindsOutThatCallsContradictTheCosts) {
  WorldOptions over_tcp = only("tcp");
  over_tcp.config.timeout = seconds(30);
  over_tcp.config.cache_file = options_.config.cache_file;
  MeasuredCosts wrong = costs();
  wrong.links["tcp"].latency_s = 1;
  wrong.links["tcp"].knots.push_back({64 << 10, 1e9});
  wrong.links_at_s["tcp"] = wrong.offloads_at_s;
  wrong.unfinished.clear();
  wrong.again_at_s = std::numeric_limits<std::int64_t>::max();
  keep(wrong);
  in_processes(2, over_tcp, [](World& world) {
    for (const std::size_t count : {1, 10, 100, 1000}) {
      std::vector<float> data(count, 1.0F);
      for (int i = 0; i < 20; ++i) world.communicator().all_reduce(data).get();
    }
  });
  EXPECT_THAT(costs().contradicted, AllOf(HasSubstr("all_reduce"), HasSubstr("were predicted")));
}

INSTANTIATE_TEST_SUITE_P(Transports, Measuring, testing::ValuesIn(transports_between_processes()),
                         [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace sinew::test
