#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/launch.hpp>
#include <sinew/collectives/launch/rendezvous.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/store_client.hpp>
#include <sinew/core/store/store_server.hpp>
#include <support/worlds.hpp>

// Processes join a job that runs, and leave it.
namespace sinew::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::size_t kMostProcesses = 64;

/// The words of a process of the job, in memory that the test shares with it.
struct Said {
  std::atomic<int> rank;   // -1: it has none
  std::atomic<int> size;   // of its World
  std::atomic<int> steps;  // that it has done
};

struct Board {
  std::atomic<bool> stop;
  std::array<Said, kMostProcesses> of;
};

/// A job as sinew-run would serve it, and its processes.
class ElasticJob {
 public:
  ElasticJob(ElasticLimits limits, std::vector<int> counts, WorldOptions options)
      : options_(std::move(options)),
        board_(static_cast<Board*>(
            ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        server_(std::make_unique<StoreServerThread>(
            StoreServerOptions{.secret = random_secret(), .host = StoreHost::Launcher, .elastic = limits})) {
    options_.counts = std::move(counts);
    limits_ = fmt::format("{}:{}", limits.least, limits.most);
    name_ = fmt::format("grow-{:016x}", random_id());
    server_->listen(listen_on(bootstrap_address(kPort, name_)));
  }
  ~ElasticJob() {
    for (const auto& [number, pid] : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board_, sizeof(Board));
  }

  void expect(int processes) { server_->expect(processes); }
  /// Returns the process's number.
  int start() {
    const int number = next_++;
    said(number).rank = -1;
    const pid_t pid = ::fork();
    if (pid == 0) run(number);
    pids_[number] = pid;
    return number;
  }
  std::vector<int> start(int count) {
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(start());
    return numbers;
  }
  void kill(int number) {
    ::kill(pids_.at(number), SIGKILL);
    ::waitpid(pids_.at(number), nullptr, 0);
    pids_.erase(number);
    said(number).rank = -1;
  }
  Said& said(int number) { return board_->of[static_cast<std::size_t>(number)]; }

  /// Waits until so many processes are the ranks of one World and have done three steps there.
  void expect_ranks(int ranks) {
    const Deadline bound = Deadline::after(seconds(60));
    std::map<int, int> before;
    for (const auto& [number, pid] : pids_) before[number] = said(number).steps;
    for (;;) {
      std::set<int> seen;
      for (const auto& [number, pid] : pids_) {
        const Said& s = said(number);
        if (s.size == ranks && s.rank >= 0 && s.steps >= before[number] + 3) seen.insert(s.rank);
      }
      if (static_cast<int>(seen.size()) == ranks && *seen.rbegin() == ranks - 1) return;
      if (bound.passed()) break;
      std::this_thread::sleep_for(milliseconds(2));
    }
    std::string text;
    for (const auto& [number, pid] : pids_)
      text += fmt::format("process {}: rank {} of {}, {} steps\n", number, said(number).rank.load(),
                          said(number).size.load(), said(number).steps.load());
    ADD_FAILURE() << "expected a World of " << ranks << " ranks:\n" << text;
  }

  std::vector<int> numbers() const {
    std::vector<int> all;
    for (const auto& [number, pid] : pids_) all.push_back(number);
    return all;
  }

  /// Ends the job. Processes with a rank end with 0. Processes that wait are told.
  void stop() {
    board_->stop = true;
    server_->end_rounds("the job is done");
    std::set<int> waiting;
    for (const auto& [number, pid] : pids_) {
      if (said(number).rank >= 0)
        expect_end(number, pid, 0);
      else
        waiting.insert(number);
    }
    for (const int number : waiting) expect_end(number, pids_.at(number), kWasTold);
    server_.reset();
    pids_.clear();
  }

 private:
  static constexpr std::uint16_t kPort = 7;  // only a name here
  static constexpr int kWasTold = 7;

  static void expect_end(int number, pid_t pid, int code) {
    int status = 0;
    const Deadline bound = Deadline::after(seconds(30));
    while (::waitpid(pid, &status, WNOHANG) == 0) {
      if (bound.passed()) {
        ADD_FAILURE() << "process " << number << " does not end";
        ::kill(pid, SIGKILL);
        ::waitpid(pid, &status, 0);
        return;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == code) << "process " << number << ": wait status " << status;
  }

  [[noreturn]] void run(int number) {
    ::setenv("SINEW_ELASTIC", limits_.c_str(), 1);
    ::setenv("SINEW_JOB", name_.c_str(), 1);
    ::setenv("MASTER_PORT", std::to_string(kPort).c_str(), 1);
    int code = 0;
    try {
      steps(said(number));
    } catch (const Error& e) {
      code = e.code() == Code::Aborted && std::string(e.what()).find("the job is done") != std::string::npos ? kWasTold
                                                                                                             : 1;
      if (code == 1) fmt::print(stderr, "process {}: {}\n", number, e.what());
    } catch (const std::exception& e) {
      fmt::print(stderr, "process {}: {}\n", number, e.what());
      code = 1;
    }
    std::fflush(stderr);
    ::_exit(code);
  }

  void steps(Said& mine) {
    World world = World::from_environment(options_);
    int calls = 0;  // in this World
    const auto grow = [&] {
      mine.rank = -1;
      world = world.grow();
      calls = 0;
    };
    for (;;) {
      try {
        std::array<int, 1> word{};
        constexpr int kStop = 2;
        if (world.rank() == 0) word[0] = board_->stop ? kStop : world.is_change_due() ? 1 : 0;
        world.communicator().broadcast(std::span(word), 0).get();
        if (word[0] == kStop) return;
        if (word[0] == 1) {
          grow();
          continue;
        }
        std::vector<float> data(calls++ % 3 == 0 ? 2 : 40'000, static_cast<float>(world.rank()));
        world.communicator().all_reduce(std::span(data)).get();
        const int n = world.size();
        require(data.back() == static_cast<float>(n * (n - 1) / 2), "wrong sum");
        mine.size = n;
        mine.rank = world.rank();
        ++mine.steps;
      } catch (const Error& e) {
        if (e.code() != Code::PeerLost && e.code() != Code::Aborted) throw;
        if (board_->stop) return;
        grow();
      }
    }
  }

  WorldOptions options_;
  Board* board_;
  std::string name_;
  std::string limits_;
  std::unique_ptr<StoreServerThread> server_;
  std::map<int, pid_t> pids_;
  int next_ = 0;
};

class Grow : public testing::TestWithParam<const char*> {
 protected:
  WorldOptions options() const { return only(GetParam()); }
};

TEST_P(Grow, ProcessesJoinAJobThatRuns) {
  ElasticJob job({.least = 2, .most = 4}, {}, options());
  job.expect(2);
  job.start(2);
  job.expect_ranks(2);
  job.start(1);
  job.expect_ranks(3);
  job.start(2);  // one of them is a spare
  job.expect_ranks(4);
  job.stop();
}

TEST_P(Grow, ASpareTakesThePlaceOfADeadRank) {
  ElasticJob job({.least = 3, .most = 3}, {}, options());
  job.expect(4);
  const std::vector<int> all = job.start(4);
  job.expect_ranks(3);
  for (const int rank : {1, 0}) {
    std::map<int, int> before;
    int victim = -1;
    for (const int number : job.numbers()) {
      const int r = job.said(number).rank;
      if (r == rank)
        victim = number;
      else if (r >= 0)
        before[number] = r;
    }
    ASSERT_GE(victim, 0);
    job.kill(victim);
    job.expect_ranks(3);
    for (const auto& [number, r] : before) EXPECT_EQ(job.said(number).rank, r) << "a rank keeps its number";
    job.start();  // the next spare
  }
  job.stop();
}

TEST_P(Grow, GoesOnWithWholeReplicas_AndWaitsForTheRest) {
  ElasticJob job({.least = 2, .most = 4}, {2, 4}, options());
  job.expect(4);
  const std::vector<int> all = job.start(4);
  job.expect_ranks(4);
  job.kill(all[0]);
  job.expect_ranks(2);
  job.start();
  job.expect_ranks(4);
  job.stop();
}

TEST_P(Grow, SurvivesRandomChanges) {
  constexpr int kChanges = 12;
  ElasticJob job({.least = 1, .most = 4}, {}, options());
  job.expect(3);
  job.start(3);
  job.expect_ranks(3);
  std::mt19937 random(20);
  for (int change = 0; change < kChanges; ++change) {
    std::vector<int> now = job.numbers();
    const bool kills = now.size() > 1 && random() % 2 == 0;
    const bool joins = !kills || random() % 3 == 0;
    if (kills) job.kill(now[random() % now.size()]);
    if (joins) job.start();
    if (random() % 2 == 0)
      std::this_thread::sleep_for(milliseconds(random() % 20));
    else
      job.expect_ranks(std::min<int>(4, static_cast<int>(job.numbers().size())));
  }
  job.expect_ranks(std::min<int>(4, static_cast<int>(job.numbers().size())));
  job.stop();
}

INSTANTIATE_TEST_SUITE_P(Processes, Grow, testing::Values("shm", "tcp"),
                         [](const auto& of) { return std::string(of.param); });

/// A member that dies between its round and the exchanges of this round has not come to them, and never will.
TEST(GrowStore, EndsTheExchange_WhenAMemberDiesBeforeItComes) {
  StoreServerThread server({.secret = random_secret(), .elastic = ElasticLimits{.least = 2, .most = 2}});
  Listener listener = listen_on(SocketAddress::abstract(fmt::format("sinew-test-{:x}", random_id())));
  const SocketAddress address = listener.address;
  server.listen(std::move(listener));
  const auto member = [&] {
    return std::make_shared<StoreClient>(StoreClient::Options{.addresses = {address}, .group = "members"},
                                         Deadline::after(seconds(30)));
  };
  const Config config;
  std::thread other([&] {
    Rendezvous rendezvous(member(), config);
    EXPECT_TRUE(rendezvous.next({}, false, Deadline::after(seconds(30))).has_rank());
  });
  Rendezvous rendezvous(member(), config);
  const Round round = rendezvous.next({}, false, Deadline::after(seconds(30)));
  other.join();
  EXPECT_EQ(round.ranks(), 2);
  const auto begin = Clock::now();
  try {
    static_cast<void>(round.exchange_of_ranks().all_gather({}));
    FAIL() << "the exchange ended without the other rank";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::PeerLost) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("has ended"));
  }
  EXPECT_LT(Clock::now() - begin, seconds(20));
}

/// A relay is a rank. Its end would cut the other ranks of the host off from the store.
TEST(GrowStore, IsReachedWithoutARelay_HoweverManyRanksTheJobHas) {
  const Bytes secret = random_secret();
  const auto port = port_of_process({});
  StoreServerThread server(
      {.secret = secret, .host = StoreHost::Launcher, .elastic = ElasticLimits{.least = 1, .most = 2}});
  server.serve(port, 0);
  const auto member = std::make_shared<StoreClient>(
      StoreClient::Options{.addresses = {SocketAddress::parse("127.0.0.1:0").with_port(port->number())},
                           .secret = secret,
                           .group = "members"},
      Deadline::after(seconds(30)));
  ASSERT_EQ(::setenv("SINEW_START_TREE", "1:1", 1), 0);
  Rendezvous rendezvous(member, Config());
  const Joined joined = rendezvous.next({}, false, Deadline::after(seconds(30))).join_ranks();
  EXPECT_NE(joined.store->server().host, StoreHost::Relay);
  ASSERT_EQ(::unsetenv("SINEW_START_TREE"), 0);
}

TEST(GrowAlone, SaysHowAJobGetsElastic_WhereItIsNot) {
  World world = World::from_environment();
  EXPECT_FALSE(world.is_change_due());
  try {
    world = world.grow();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_THAT(e.what(), HasSubstr("sinew-run with --nodes MIN:MAX"));
  }
}

}  // namespace
}  // namespace sinew::test
