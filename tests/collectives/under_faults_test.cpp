// Worlds whose messages are lost, late, doubled, cut short or out of order, and whose ranks stop or die: each call ends
// with the right numbers, or with an Error that names a rank.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>
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
void behave(const Exchange& exchange, const WorldOptions& options) {
  int ending = AllRight;
  try {
    World world = World::create(exchange, options);
    try {
      call(world);
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

INSTANTIATE_TEST_SUITE_P(faults, UnderFaults, testing::ValuesIn(ways()), [](const auto& way) {
  return fmt::format("{}_{}", way.param.transport, way.param.what.name);
});

INSTANTIATE_TEST_SUITE_P(faults, DeathUnderFaults, testing::Values("tcp", "shm"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace sinew::test
