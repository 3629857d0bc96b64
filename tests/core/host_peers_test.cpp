#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/host/host_peers.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <support/ranks.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;
using Word = std::atomic<std::uint32_t>;

Bytes bytes_of(std::uint64_t value) {
  Bytes b(sizeof value);
  std::memcpy(b.data(), &value, sizeof value);
  return b;
}

std::uint64_t value_of(const Bytes& b) {
  std::uint64_t value = 0;
  std::memcpy(&value, b.data(), sizeof value);
  return value;
}

/// Every rank writes its number into its shared segment and reads the numbers of all ranks.
void read_each_other(const Exchange& world) {
  HostPeers peers(world, "here", Deadline::after(30s));
  ASSERT_EQ(peers.ranks().size(), static_cast<std::size_t>(world.size));
  std::byte* mine = peers.shared_segment().allocate(64);
  new (mine) Word(static_cast<std::uint32_t>(world.rank) + 100);
  const auto offsets = world.all_gather(bytes_of(peers.shared_segment().offset_of(mine)));
  for (const int r : peers.ranks()) {
    const auto* theirs =
        reinterpret_cast<const Word*>(peers.memory_of(r) + value_of(offsets[static_cast<std::size_t>(r)]));
    EXPECT_EQ(theirs->load(), static_cast<std::uint32_t>(r) + 100);
  }
  (void)world.all_gather({});
}

TEST(HostPeers, ReadEachOthersMemory_AsThreads) { test::run_as_threads(5, read_each_other); }
TEST(HostPeers, ReadEachOthersMemory_AsProcesses) { test::run_as_processes(5, read_each_other); }
/// More than one message of descriptors carries.
TEST(HostPeers, ReadEachOthersMemory_AsManyProcesses) { test::run_as_processes(70, read_each_other); }
TEST(HostPeers, ReadEachOthersMemory_Alone) { read_each_other(exchange_alone()); }

TEST(HostPeers, MeetInOneWorld_WhenTwoProcessesHaveThreeThreadsEach) {
  constexpr int kThreads = 3;
  test::run_as_processes(2, [](const Exchange& processes) {
    const auto inner = thread_exchanges(kThreads, 30s);
    const auto inner_again = thread_exchanges(kThreads, 30s);
    std::vector<Bytes> everybody;
    test::run_as_threads(kThreads, [&](const Exchange& threads) {
      const auto t = static_cast<std::size_t>(threads.rank);
      Exchange world{processes.rank * kThreads + threads.rank, 2 * kThreads, [&, t](const Bytes& mine) {
                       const auto here = inner[t].all_gather(mine);
                       if (t == 0) {
                         everybody.clear();
                         for (const Bytes& b : here) {
                           for (const Bytes& one : processes.all_gather(b)) everybody.push_back(one);
                         }
                         std::vector<Bytes> sorted(2 * kThreads);
                         for (std::size_t i = 0; i < sorted.size(); ++i)
                           sorted[i % 2 * kThreads + i / 2] = everybody[i];
                         everybody = sorted;
                       }
                       (void)inner_again[t].all_gather({});
                       const auto copy = everybody;
                       (void)inner_again[t].all_gather({});
                       return copy;
                     }};
      read_each_other(world);
    });
  });
}

TEST(HostPeers, KnowOnlyTheirOwnHost) {
  test::run_as_threads(4, [](const Exchange& world) {
    HostPeers peers(world, world.rank < 1 ? "a" : "b", Deadline::after(30s));
    EXPECT_EQ(peers.ranks().size(), world.rank < 1 ? 1u : 3u);
    EXPECT_EQ(peers.contains(0), world.rank == 0);
    EXPECT_EQ(peers.contains(3), world.rank != 0);
    EXPECT_FALSE(peers.contains(4));
    EXPECT_EQ(peers.pid_of(0), world.rank == 0 ? getpid() : -1);
    if (world.rank == 0) {
      EXPECT_THROW((void)peers.memory_of(1), Error);
    }
    (void)world.all_gather({});
  });
}

TEST(HostPeers, WakeASleeper_AndLoseNoWake) {
  test::run_as_processes(2, [](const Exchange& world) {
    HostPeers peers(world, "here", Deadline::after(30s));
    auto* mine = new (peers.shared_segment().allocate(64)) Word(0);
    const auto offsets = world.all_gather(bytes_of(peers.shared_segment().offset_of(mine)));
    const int other = 1 - world.rank;
    const auto* theirs =
        reinterpret_cast<const Word*>(peers.memory_of(other) + value_of(offsets[static_cast<std::size_t>(other)]));
    for (std::uint32_t turn = 1; turn <= 2000; ++turn) {
      mine->store(turn, std::memory_order_release);
      peers.notify(other);
      while (theirs->load(std::memory_order_acquire) < turn) {
        peers.arm();
        if (theirs->load(std::memory_order_acquire) < turn) {
          pollfd entry{peers.wake_descriptor(), POLLIN, 0};
          ASSERT_EQ(poll(&entry, 1, 20'000), 1) << "a wake was lost at turn " << turn;
        }
        peers.disarm();
      }
    }
    (void)world.all_gather({});
  });
}

TEST(HostPeers, TellAProcessByItsPidfd) {
  test::run_as_processes(2, [](const Exchange& world) {
    HostPeers peers(world, "here", Deadline::after(30s));
    EXPECT_EQ(peers.pid_of(world.rank), getpid());
    EXPECT_FALSE(peers.same_process(1 - world.rank));
    if (world.rank == 1) {
      (void)world.all_gather({});
      return;
    }
    pollfd entry{peers.life_of(1), POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0) << "rank 1 still lives";
    (void)world.all_gather({});
    EXPECT_EQ(poll(&entry, 1, 20'000), 1) << "rank 1 has ended";
  });
}

TEST(HostPeers, NameTheRankThatDoesNotCome_OnAllRanks) {
  test::run_as_processes(3, [](const Exchange& world) {
    // Rank 2 takes its time between the rounds: longer than the others' deadline.
    Exchange slow = world;
    int round = 0;
    if (world.rank == 2) {
      slow.all_gather = [&](const Bytes& mine) {
        auto all = world.all_gather(mine);
        if (round++ == 0) std::this_thread::sleep_for(1500ms);
        return all;
      };
    }
    try {
      HostPeers peers(slow, "here", Deadline::after(300ms));
      ADD_FAILURE() << "rank " << world.rank << " met a rank that was too late";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Timeout) << e.what();
      EXPECT_NE(std::string(e.what()).find("waited for rank(s) 2"), std::string::npos) << e.what();
    }
  });
}

/// From now on this process can open only so many descriptors more; returns the limit that makes it so.
rlim_t leave_descriptors(int count) {
  std::vector<FileDescriptor> free;
  while (free.size() <= static_cast<std::size_t>(count)) free.emplace_back(dup(0));
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(free.back().get());
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

TEST(HostPeers, SayHowManyDescriptorsTheyNeed_WhereTheLeaderMayOpenTooFew) {
  // Of the six for its own rank on: some end at a connection, some at the descriptors that come over it.
  for (int left = 5; left <= 12; ++left) {
    SCOPED_TRACE(left);
    test::run_as_processes(4, [left](const Exchange& world) {
      Exchange limited = world;
      rlim_t limit = 0;
      limited.all_gather = [&](const Bytes& mine) {
        auto all = world.all_gather(mine);
        if (world.rank == 0 && limit == 0) limit = leave_descriptors(left);
        return all;
      };
      const auto before = Clock::now();
      try {
        HostPeers peers(limited, "here", Deadline::after(20s));
        ADD_FAILURE() << "rank " << world.rank;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::System);
        const std::string what = e.what();
        EXPECT_NE(what.find("4 ranks need 16 "), std::string::npos) << what;
        if (world.rank == 0) {
          EXPECT_NE(what.find(fmt::format("RLIMIT_NOFILE is {};", limit)), std::string::npos) << what;
        }
      }
      EXPECT_LT(Clock::now() - before, 10s) << "rank " << world.rank;
    });
  }
}

std::multiset<std::string> shared_memory_files() {
  std::multiset<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    if (const std::string name = entry.path().filename(); name.find("sinew") != std::string::npos) names.insert(name);
  }
  return names;
}

TEST(HostPeers, LeaveNothingBehind_AfterSigkill) {
  const auto before = shared_memory_files();
  const auto statuses = test::fork_ranks(3, [](const Exchange& world) {
    HostPeers peers(world, "here", Deadline::after(30s));
    std::memset(peers.shared_segment().allocate(1 << 20), 1, 1 << 20);
    (void)world.all_gather({});
    raise(SIGKILL);
  });
  for (const int status : statuses) EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(shared_memory_files(), before);
}

TEST(HostPeers, CloseEveryDescriptor_WhenTheyEnd) {
  const auto descriptors = [] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  };
  test::run_as_processes(3, [&](const Exchange& world) {
    const std::size_t before = descriptors();
    {
      HostPeers peers(world, "here", Deadline::after(30s));
      for (const int r : peers.ranks()) (void)peers.memory_of(r);
      EXPECT_GT(descriptors(), before);
      (void)world.all_gather({});
    }
    EXPECT_EQ(descriptors(), before);
  });
}

}  // namespace
}  // namespace sinew
