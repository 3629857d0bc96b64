// Worlds whose messages are lost, late, doubled, cut short or out of order, and whose ranks stop or die: each call ends
// with the right numbers, or with an Error that names a rank.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/error.hpp>
#include <support/ranks.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

namespace sinew::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 20;

/// How a rank's calls have ended.
enum Ending { AllRight = 0, Told = 3 };

struct Case {
  const char* name;
  std::string faults;
  bool ends_well;  ///< no promise is broken
};

std::vector<Case> cases() {
  return {
      {"delay", "delay@1+:2ms", true},       {"late_once", "delay@9:300ms/1", true},
      {"stall", "stall@15:300ms/1", true},   {"drop", "drop@9/1", false},
      {"drop_all", "drop@20+/2", false},     {"duplicate", "duplicate@5+/1", false},
      {"truncate", "truncate@9:4/1", false}, {"truncate_to_nothing", "truncate@9+:0/0", false},
      {"reorder", "reorder@5+", false},      {"stopped", "stall@15/1", false},
  };
}

struct Way {
  Case what;
  std::string transport;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const std::string transport : {"tcp", "shm"}) {
    for (const Case& c : cases()) {
      // A rank whose transport has stopped for good waits half a minute for its buffers: once is enough.
      if (c.name != std::string("stopped") || transport == "tcp") all.push_back({c, transport});
    }
  }
  return all;
}

WorldOptions faulty(const std::string& transport, const std::string& faults) {
  static const ScratchFolder folder;
  const std::string costs_file = folder / transport;
  WorldOptions options = only("faulty");
  options.config.transport_path = {FAULTY_FOLDER};
  options.config.faults = transport + "," + faults;
  options.config.timeout = std::chrono::seconds(3);
  options.config.cache_file = costs_file;
  return options;
}

/// What a rank does: sums of several lengths, each checked.
void call(World& world) {
  Communicator& all = world.communicator();
  for (int i = 0; i < kCalls; ++i) {
    const std::size_t count = std::size_t{1} << (2 * (i % 8));
    std::vector<float> v(count, static_cast<float>(world.rank() + i));
    all.all_reduce(v, v).get();
    const float expected = 3.0F * static_cast<float>(i) + 3.0F;
    for (const float x : v) {
      if (x != expected) throw std::logic_error(fmt::format("call {}: {} where {} was expected", i, x, expected));
    }
  }
}

/// The process' exit code says how it ended; an Error must name a rank.
void behave(const Exchange& exchange, const WorldOptions& options, void (*calls)(World&) = call) {
  int ending = AllRight;
  try {
    World world = World::create(exchange, options);
    try {
      calls(world);
    } catch (const Error& e) {
      if (std::string(e.what()).find("rank") == std::string::npos) throw std::logic_error(e.what());
      ending = Told;
    }
  } catch (const Error& e) {  // the costs of links are measured with messages, too
    if (std::string(e.what()).find("rank") == std::string::npos) throw;
    ending = Told;
  }
  if (ending != AllRight) ::_exit(ending);
}

/// Costs are measured before anything goes wrong: then operations are those of the calls.
void measure_costs(const std::string& transport) {
  WorldOptions options = faulty(transport, "drop@1/99");
  options.config.timeout = std::chrono::seconds(60);
  run_as_processes(kRanks, [&](const Exchange& e) { World::create(e, options); });
}

class UnderFaults : public testing::TestWithParam<Way> {};

TEST_P(UnderFaults, EveryCallEndsRight_OrNamesARank) {
  const auto& [what, transport] = GetParam();
  measure_costs(transport);
  WorldOptions options = faulty(transport, what.faults);
  if (what.ends_well) options.config.timeout = std::chrono::seconds(60);  // a slow machine breaks no promise either
  const std::vector<int> ends = fork_ranks(kRanks, [&](const Exchange& e) { behave(e, options); });
  int told = 0;
  for (const int how : ends) {
    ASSERT_TRUE(WIFEXITED(how)) << "signal " << WTERMSIG(how);
    EXPECT_TRUE(WEXITSTATUS(how) == AllRight || WEXITSTATUS(how) == Told) << WEXITSTATUS(how);
    told += WEXITSTATUS(how) == Told ? 1 : 0;
  }
  if (what.ends_well) {
    EXPECT_EQ(told, 0);
  }
}

class DeathUnderFaults : public testing::TestWithParam<std::string> {};

TEST_P(DeathUnderFaults, IsNamed) {
  measure_costs(GetParam());
  WorldOptions options = faulty(GetParam(), "kill@40/1");
  options.config.timeout = std::chrono::seconds(60);
  const std::vector<int> ends = fork_ranks(kRanks, [&](const Exchange& e) {
    World world = World::create(e, options);
    try {
      call(world);
    } catch (const Error& error) {
      ::_exit(error.code() == Code::PeerLost && error.rank() == 1 ? Told : 4);
    }
  });
  EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL);
  for (const std::size_t r : {0, 2}) {
    EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == Told) << "rank " << r << ": " << ends[r];
  }
}

constexpr int kOnHosts = 4;  // two on each of two hosts

/// Messages of all_to_all_v pass through ranks 1 and 3. Ranks 0 and 2 measure the costs between hosts, and those of a
/// host are known before. So the operations of ranks 1 and 3 are those of the calls.
WorldOptions faulty_on_hosts(int rank, const std::string& faults) {
  WorldOptions options = faulty("tcp", faults);
  options.config.host_id = fmt::format("host {}", rank / 2);
  options.config.tune = {"all_to_all_v:0-:hierarchical@*"};
  return options;
}

/// The number of elements that one rank gives another in a call. Some blocks are longer than the head of a message.
std::uint64_t elements(int i, int giver, int taker) {
  const int kind = (i + giver + 2 * taker) % 4;
  return kind == 0 ? 0U : kind == 1 ? 3U : kind == 2 ? 300U : 5000U;
}

void call_all_to_all_v(World& world) {
  Communicator& all = world.communicator();
  if (all.plan({.collective = Collective::AllToAllV}).chosen().algorithm != "hierarchical")
    throw std::logic_error("the rule does not apply");
  for (int i = 0; i < kCalls; ++i) {
    std::vector<std::uint64_t> gives, takes;
    std::vector<float> in, right;
    for (int r = 0; r < kOnHosts; ++r) {
      gives.push_back(elements(i, all.rank(), r));
      takes.push_back(elements(i, r, all.rank()));
      in.insert(in.end(), gives.back(), static_cast<float>(100 * i + 10 * all.rank() + r));
      right.insert(right.end(), takes.back(), static_cast<float>(100 * i + 10 * r + all.rank()));
    }
    std::vector<float> out(right.size());
    all.all_to_all_v(in, out, {gives}, {takes}).get();
    if (out != right) throw std::logic_error(fmt::format("call {}: wrong data", i));
  }
}

class AllToAllVUnderFaults : public testing::TestWithParam<Case> {};

TEST_P(AllToAllVUnderFaults, EveryCallEndsRight_OrNamesARank) {
  const Case& what = GetParam();
  measure_costs("tcp");
  const std::vector<int> ends = fork_ranks(kOnHosts, [&](const Exchange& e) {
    WorldOptions options = faulty_on_hosts(e.rank, what.faults);
    if (what.ends_well) options.config.timeout = std::chrono::seconds(60);
    behave(e, options, call_all_to_all_v);
  });
  for (const int how : ends) {
    ASSERT_TRUE(WIFEXITED(how)) << "signal " << WTERMSIG(how);
    EXPECT_TRUE(WEXITSTATUS(how) == AllRight || (!what.ends_well && WEXITSTATUS(how) == Told)) << WEXITSTATUS(how);
  }
}

/// The fault is each operation in turn of the first calls: the blocks of rank 0 have come to rank 1 or not, and rank 1
/// has passed them on or not.
TEST(DeathInAllToAllV, IsNamed_AtEachOperationOfARankThatPassesBlocksOn) {
  measure_costs("tcp");
  for (int operation = 1; operation <= 14; ++operation) {
    SCOPED_TRACE(fmt::format("operation {}", operation));
    const std::vector<int> ends = fork_ranks(kOnHosts, [&](const Exchange& e) {
      WorldOptions options = faulty_on_hosts(e.rank, fmt::format("kill@{}/1", operation));
      options.config.timeout = std::chrono::seconds(60);
      World world = World::create(e, options);
      try {
        call_all_to_all_v(world);
      } catch (const Error& error) {
        const bool named = error.code() == Code::PeerLost && error.rank() == 1;
        if (!named) fmt::print(stderr, "rank {}: {}\n", e.rank, error.what());
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others hear of rank 1, not of this end
        ::_exit(named ? Told : 4);
      }
    });
    EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL);
    for (const std::size_t r : {0, 2, 3})
      EXPECT_TRUE(WIFEXITED(ends[r]) && WEXITSTATUS(ends[r]) == Told) << "rank " << r << ": " << ends[r];
  }
}

INSTANTIATE_TEST_SUITE_P(faults, AllToAllVUnderFaults,
                         testing::Values(Case{"delay", "delay@1+:2ms/1", true}, Case{"stall", "stall@7:300ms/1", true},
                                         Case{"drop", "drop@9/1", false}, Case{"drop_first", "drop@1/3", false},
                                         Case{"duplicate", "duplicate@5+/1", false},
                                         Case{"truncate", "truncate@9:4/1", false},
                                         Case{"truncate_all", "truncate@1+:20/3", false},
                                         Case{"truncate_to_nothing", "truncate@3+:0/1", false},
                                         Case{"reorder", "reorder@5+/1", false}),
                         [](const auto& c) { return c.param.name; });

INSTANTIATE_TEST_SUITE_P(faults, UnderFaults, testing::ValuesIn(ways()), [](const auto& way) {
  return fmt::format("{}_{}", way.param.transport, way.param.what.name);
});

INSTANTIATE_TEST_SUITE_P(faults, DeathUnderFaults, testing::Values("tcp", "shm"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace sinew::test
