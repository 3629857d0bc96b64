#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/control/control_service.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/runtime/record_ring.hpp>
#include <support/ranks.hpp>
#include <support/refused_calls.hpp>

namespace sinew::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

/// A rank with a control plane and nothing else.
struct Rank {
  Config config{};
  HostPeers host;
  ControlService service;
  std::vector<Notice> news;

  explicit Rank(const Exchange& exchange, const std::string& host_id = "here")
      : config{.host_id = host_id},
        host(exchange, host_id, Deadline::after(seconds(20))),
        service(
            exchange,
            {.generation = 0, .host = host, .host_id = host_id, .secret = Bytes(32, std::byte{5}), .config = config}) {}

  std::vector<int> expect_lost(std::size_t count) {
    std::vector<int> lost;
    while (lost.size() < count && !testing::Test::HasFailure()) lost.push_back(expect(NoticeKind::RankLost).world_rank);
    std::ranges::sort(lost);
    return lost;
  }

  /// The next notice of a kind, or a failure after ten seconds.
  Notice expect(NoticeKind kind) {
    for (int i = 0; i < 10000; ++i) {
      std::ranges::move(service.take_news(), std::back_inserter(news));
      const auto found = std::ranges::find(news, kind, &Notice::kind);
      if (found != news.end()) {
        const Notice notice = *found;
        news.erase(found);
        return notice;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no notice of kind " << static_cast<int>(kind);
    return {};
  }
};

void meet(const Exchange& exchange) { static_cast<void>(exchange.all_gather({})); }

void announce_and_expect(const Exchange& exchange) {
  Rank rank(exchange);
  if (exchange.rank == 1) {
    rank.service.announce(Notice::of(NoticeKind::CommunicatorEnded, 1, {Code::Aborted, "rank 1 had enough", 1}, 77));
  }
  const Notice n = rank.expect(NoticeKind::CommunicatorEnded);
  EXPECT_EQ(n.communicator, 77U);
  EXPECT_EQ(n.message(), "rank 1 had enough");
  EXPECT_EQ(rank.service.end_of(77, {0, 1}).code(), Code::Aborted);
  EXPECT_TRUE(rank.service.end_of(78, {0, 1}).ok());
  meet(exchange);
}

TEST(ControlService, TellsEveryProcess) { run_as_processes(3, announce_and_expect); }
TEST(ControlService, TellsEveryThread) { run_as_threads(3, announce_and_expect); }

TEST(ControlService, NamesTheRankAndTheSignal_WhenAProcessIsKilled) {
  const std::vector<int> ends = fork_ranks(3, [](const Exchange& exchange) {
    Rank rank(exchange);
    if (exchange.rank == 1) ::kill(::getpid(), SIGKILL);
    const Notice n = rank.expect(NoticeKind::RankLost);
    EXPECT_EQ(n.world_rank, 1);
    EXPECT_EQ(n.code, Code::PeerLost);
    EXPECT_THAT(std::string(n.message()), AllOf(HasSubstr("rank 1 (host "), HasSubstr("killed by signal 9")));
    EXPECT_EQ(rank.service.end_of(5, {2, 1}).rank(), 1);
    EXPECT_TRUE(rank.service.end_of(5, {0, 2}).ok());
    EXPECT_FALSE(rank.service.living(1));
  });
  EXPECT_TRUE(WIFSIGNALED(ends[1]));
  EXPECT_EQ(ends[0] + ends[2], 0);
}

TEST(ControlService, NamesTheRank_WhenTheKernelRefusesPidfds) {
  const std::vector<int> ends = fork_ranks(2, [](const Exchange& exchange) {
    ASSERT_TRUE(refuse_calls(std::array{static_cast<int>(SYS_pidfd_open)}, EPERM));
    Rank rank(exchange);
    if (exchange.rank == 1) {
      if (::fork() == 0) {  // a child that outlives it
        ::alarm(20);        // twice as long as the other rank waits
        ::pause();
      }
      ::kill(::getpid(), SIGKILL);
    }
    EXPECT_THAT(std::string(rank.expect(NoticeKind::RankLost).message()),
                AllOf(HasSubstr("rank 1 (host "), HasSubstr("killed by signal 9")));
  });
  EXPECT_EQ(ends[0], 0);
}

TEST(ControlService, CountsExitWithoutGoodbyeAsALoss) {
  fork_ranks(2, [](const Exchange& exchange) {
    Rank rank(exchange);
    if (exchange.rank == 0) ::_exit(3);
    EXPECT_THAT(std::string(rank.expect(NoticeKind::RankLost).message()), HasSubstr("exited with code 3"));
  });
}

TEST(ControlService, SaysGoodbye_WhenARankEndsInOrder) {
  fork_ranks(2, [](const Exchange& exchange) {
    auto rank = std::make_unique<Rank>(exchange);
    if (exchange.rank == 0) return;
    EXPECT_EQ(rank->expect(NoticeKind::RankLeft).world_rank, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // rank 0's process is gone by now
    EXPECT_TRUE(rank->service.end_of(5, {0, 1}).ok());
    EXPECT_TRUE(rank->service.left(0));
  });
}

TEST(ControlService, KeepsTheFirstReason) {
  run_as_processes(2, [](const Exchange& exchange) {
    Rank rank(exchange);
    if (exchange.rank == 0) {
      rank.service.announce(Notice::of(NoticeKind::CommunicatorEnded, 0, {Code::Timeout, "first"}, 9));
      rank.service.announce(Notice::of(NoticeKind::CommunicatorEnded, 0, {Code::Aborted, "second"}, 9));
    }
    meet(exchange);
    if (exchange.rank == 1) rank.expect(NoticeKind::CommunicatorEnded);
    EXPECT_EQ(rank.service.end_of(9, {0, 1}).message(), "first");
    meet(exchange);
  });
}

TEST(ControlService, RefusesHostsWithoutASecret_OnAllRanks) {
  run_as_processes(3, [](const Exchange& exchange) {
    const Config config{};
    const std::string host = exchange.rank == 2 ? "there" : "here";
    HostPeers peers(exchange, host, Deadline::after(seconds(20)));
    try {
      const ControlService service(exchange, {.host = peers, .host_id = host, .secret = {}, .config = config});
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Unavailable);
      EXPECT_THAT(e.what(), HasSubstr("SINEW_SECRET_FILE"));
    }
  });
}

/// Ranks 0, 1 on host a, 2, 3 on host b; one machine stands for both.
std::string host_of(int rank) { return rank < 2 ? "a" : "b"; }

TEST(ControlServiceOnTwoHosts, TellsEveryRank) {
  run_as_processes(4, [](const Exchange& exchange) {
    Rank rank(exchange, host_of(exchange.rank));
    for (const int speaker : {3, 0}) {
      const auto communicator = static_cast<std::uint64_t>(100 + speaker);
      if (exchange.rank == speaker) {
        rank.service.announce(
            Notice::of(NoticeKind::CommunicatorEnded, speaker, {Code::Aborted, "enough", 1}, communicator));
      }
      EXPECT_EQ(rank.expect(NoticeKind::CommunicatorEnded).communicator, communicator);
      meet(exchange);
    }
  });
}

/// A child that holds the descriptors of a rank that has died, and its own number for who has to end it.
enum class HeldBy { ChildOfFork, ChildOfClone, Grandchild };

void leave_behind(HeldBy what, std::atomic<pid_t>& holder) {
  const pid_t child =
      what == HeldBy::ChildOfClone ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) : ::fork();
  if (child == 0) {
    if (what == HeldBy::Grandchild && ::fork() != 0) ::_exit(0);
    ::alarm(60);  // not a page
    holder = static_cast<pid_t>(::syscall(SYS_getpid));
    for (;;) ::pause();
  }
  while (holder == 0) std::this_thread::yield();
}

class HiddenDeath : public testing::TestWithParam<HeldBy> {};
INSTANTIATE_TEST_SUITE_P(Children, HiddenDeath,
                         testing::Values(HeldBy::ChildOfFork, HeldBy::ChildOfClone, HeldBy::Grandchild));

/// Each rank is the only one of its host, so nobody there can tell that it has died. Rank 0 has connected to rank 1,
/// and rank 1 to rank 2. The exchange of the tests ends when rank 0 does.
TEST_P(HiddenDeath, IsKnownOnOtherHosts) {
  for (const int victim : {1, 2}) {
    SCOPED_TRACE(victim);
    void* shared =
        ::mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto& holder = *new (shared) std::atomic<pid_t>(0);
    const std::vector<int> ends = fork_ranks(3, [&](const Exchange& exchange) {
      Rank rank(exchange, "host " + std::to_string(exchange.rank));
      meet(exchange);
      if (exchange.rank == victim) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // not before hosts have their connections
        leave_behind(GetParam(), holder);
        ::kill(::getpid(), SIGKILL);
      }
      while (holder == 0) std::this_thread::yield();
      const auto before = Clock::now();
      EXPECT_EQ(rank.expect_lost(1), std::vector<int>{victim});
      EXPECT_LT(Clock::now() - before, seconds(2));
    });
    ::kill(holder, SIGKILL);
    ::munmap(shared, sizeof(std::atomic<pid_t>));
    for (int r = 0; r < 3; ++r) EXPECT_EQ(ends[static_cast<std::size_t>(r)], r == victim ? SIGKILL : 0) << "rank " << r;
  }
}

/// Nobody is taken for dead that only goes, however often.
TEST(ControlServiceOnTwoHosts, TakesNobodyForDead_WhoLeaves) {
  for (int round = 0; round < 5; ++round) {
    run_as_processes(3, [](const Exchange& exchange) {
      auto rank = std::make_unique<Rank>(exchange, "host " + std::to_string(exchange.rank));
      meet(exchange);
      if (exchange.rank == 1) {
        rank.reset();
        return meet(exchange);
      }
      EXPECT_EQ(rank->expect(NoticeKind::RankLeft).world_rank, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its life lines have ended by now
      EXPECT_TRUE(rank->service.end_of(5, {0, 1, 2}).ok());
      meet(exchange);
    });
  }
}

TEST(ControlServiceOnTwoHosts, NamesTheRank_WhenItIsKilled) {
  // A speaker of each host, one that is not, and a whole host.
  for (const std::vector<int>& victims : std::vector<std::vector<int>>{{0}, {2}, {3}, {2, 3}, {0, 2}}) {
    SCOPED_TRACE(testing::PrintToString(victims));
    const std::vector<int> ends = fork_ranks(4, [&](const Exchange& exchange) {
      Rank rank(exchange, host_of(exchange.rank));
      meet(exchange);
      if (std::ranges::count(victims, exchange.rank) > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::kill(::getpid(), SIGKILL);
      }
      const auto before = Clock::now();
      EXPECT_EQ(rank.expect_lost(victims.size()), victims);
      EXPECT_LT(Clock::now() - before, seconds(2));
    });
    for (int r = 0; r < 4; ++r) {
      const bool killed = std::ranges::count(victims, r) > 0;
      EXPECT_EQ(ends[static_cast<std::size_t>(r)], killed ? SIGKILL : 0) << "rank " << r;
    }
  }
}

TEST(ControlServiceOnTwoHosts, LosesNobody_WhenAllLeaveInOrder) {
  run_as_processes(4, [](const Exchange& exchange) {
    auto rank = std::make_unique<Rank>(exchange, host_of(exchange.rank));
    meet(exchange);
    if (exchange.rank < 3) return;
    for (int i = 0; i < 3; ++i) rank->expect(NoticeKind::RankLeft);
    std::this_thread::sleep_for(seconds(1));
    for (const Notice& n : rank->service.take_news()) EXPECT_NE(n.kind, NoticeKind::RankLost) << n.message();
  });
}

TEST(ControlServiceOnTwoHosts, AnswersForRanksThatAreStopped) {
  run_as_processes(4, [](const Exchange& exchange) {
    Rank rank(exchange, host_of(exchange.rank));
    RecordRing ring(rank.service.records(), exchange.rank);
    const std::uint32_t calls = exchange.rank == 2 ? 1 : 2;
    for (std::uint32_t s = 1; s <= calls; ++s) {
      ring.enter({.communicator = 9, .fingerprint = 32, .history = s, .sequence = s}, std::source_location::current());
    }
    Bytes mine(sizeof(pid_t));
    const pid_t me = ::getpid();
    std::memcpy(mine.data(), &me, sizeof me);
    pid_t stopped = 0;
    std::memcpy(&stopped, exchange.all_gather(mine)[2].data(), sizeof stopped);
    if (exchange.rank == 1) {
      // The speaker of host b is stopped: rank 3 has to answer for it, and rank 0 to ask for rank 1.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(stopped, SIGSTOP);
      const Question question = ask_about(ring.page(), 1, 9, 2, {0, 1, 2, 3});
      const Deadline bound = Deadline::after(seconds(10));
      std::optional<RankReport> late;
      while ((!late || late->state != 'T') && !bound.passed()) {
        rank.service.ask(question);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        late = rank.service.report(2, 9, 2);
      }
      ::kill(stopped, SIGCONT);
      ASSERT_TRUE(late);
      EXPECT_EQ(late->state, 'T');
      EXPECT_FALSE(late->call);
      ASSERT_TRUE(late->latest);
      EXPECT_EQ(late->latest->sequence, 1U);
      EXPECT_THAT(late->latest->site, HasSubstr("control_service_test.cpp:"));
      EXPECT_TRUE(rank.service.report(3, 9, 2)->call);
      EXPECT_FALSE(rank.service.report(0, 9, 2)) << "read, not asked";
    }
    meet(exchange);
    for (const Notice& n : rank.service.take_news()) EXPECT_NE(n.kind, NoticeKind::RankLost) << n.message();
    meet(exchange);
  });
}

TEST(ControlServiceOnTwoHosts, EndsNothing_WhenAStrangerConnects) {
  run_as_processes(2, [](const Exchange& exchange) {
    Rank rank(exchange, exchange.rank == 0 ? "a" : "b");
    meet(exchange);
    if (exchange.rank == 0) {
      const ControlPeer& other = rank.service.peers()[1];
      for (int i = 0; i < 20; ++i) {
        auto [socket, error] = try_connect({SocketAddress::parse(other.addresses.back())}, Deadline::after(seconds(5)));
        ASSERT_EQ(error, 0);
        const Bytes noise(static_cast<std::size_t>(i) * 50, std::byte{0xff});
        EXPECT_GE(::send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
      }
      rank.service.announce(Notice::of(NoticeKind::WorldEnded, 0, {Code::Aborted, "done"}));
    }
    EXPECT_EQ(rank.expect(NoticeKind::WorldEnded).message(), "done");
    meet(exchange);
  });
}

FileDescriptor stranger_at(const ControlPeer& peer) {
  auto [socket, error] = try_connect({SocketAddress::parse(peer.addresses.back())}, Deadline::after(seconds(5)));
  EXPECT_EQ(error, 0);
  return std::move(socket);
}

TEST(ControlServiceOnTwoHosts, LosesNobody_WhenIdleStrangersTakeAllPlaces) {
  const std::vector<int> ends = fork_ranks(3, [](const Exchange& exchange) {
    Rank rank(exchange, exchange.rank == 0 ? "a" : "b");
    meet(exchange);
    if (exchange.rank == 1) {  // the hosts' link is this rank's
      meet(exchange);
      ::kill(::getpid(), SIGKILL);
    }
    std::vector<FileDescriptor> strangers;
    for (int i = 0; i < 70; ++i) strangers.push_back(stranger_at(rank.service.peers()[exchange.rank == 0 ? 2 : 0]));
    meet(exchange);
    EXPECT_EQ(rank.expect(NoticeKind::RankLost).world_rank, 1);
    rank.service.announce(Notice::of(NoticeKind::Vote, exchange.rank, {}, 1));
    for (int i = 0; i < 2; ++i) rank.expect(NoticeKind::Vote);
    EXPECT_TRUE(rank.service.end_of(5, {0, 2}).ok());
  });
  EXPECT_TRUE(WIFSIGNALED(ends[1]));
  EXPECT_EQ(ends[0] + ends[2], 0);
}

std::chrono::microseconds cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) { return seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec); };
  return of(used.ru_utime) + of(used.ru_stime);
}

/// No descriptor can be opened any more while it lives.
class FullTable {
 public:
  FullTable() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit full = before_;
    full.rlim_cur = static_cast<rlim_t>(FileDescriptor(::dup(0)).get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  }
  ~FullTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(ControlServiceOnTwoHosts, LetsNewcomersWait_WhileNoDescriptorIsFree) {
  run_as_processes(2, [](const Exchange& exchange) {
    Rank rank(exchange, exchange.rank == 0 ? "a" : "b");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the link is made
    if (exchange.rank == 1) {
      const FullTable full;
      meet(exchange);
      meet(exchange);
      const auto before = cpu_time();
      std::this_thread::sleep_for(seconds(1));
      EXPECT_LT(cpu_time() - before, std::chrono::milliseconds(100));
      meet(exchange);
    } else {
      meet(exchange);
      const FileDescriptor stranger = stranger_at(rank.service.peers()[1]);
      const Bytes noise(1000, std::byte{0xff});
      EXPECT_GT(::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
      meet(exchange);
      meet(exchange);
      pollfd closed{stranger.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&closed, 1, 4000), 1) << "nobody has looked at it since";
    }
    meet(exchange);
  });
}

}  // namespace
}  // namespace sinew::test
