#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;

struct Pair {
  FileDescriptor ours;
  FileDescriptor theirs;

  Pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) throw_errno("pair");
    ours = FileDescriptor::kept_by_children(ends[0]);
    theirs = FileDescriptor::kept_by_children(ends[1]);
  }
  void say(const std::string& text) const {
    ASSERT_EQ(::write(theirs.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void take_one() const {
    char byte = 0;
    ASSERT_EQ(::read(ours.get(), &byte, 1), 1);
  }
};

constexpr auto kLong = 20s;

/// Whether it comes true before the test has waited for long.
bool runs_until(EventLoop& loop, const std::function<bool()>& condition) {
  const Deadline late = Deadline::after(kLong);
  while (!condition() && !late.passed()) loop.run_once(late);
  return condition();
}
/// For long enough that whatever is wrongly reported shows.
void run_a_while(EventLoop& loop) {
  const Deadline end = Deadline::after(20ms);
  while (!end.passed()) loop.run_once(end);
}

/// A process that holds all descriptors of this one until it is told to end.
class Holder {
 public:
  Holder() : child_(::fork()) {
    if (child_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Holder() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  pid_t child_;
};

TEST(EventLoop, CallsAsLongAsThereIsSomethingToRead) {
  EventLoop loop;
  const Pair pair;
  int calls = 0;
  const auto watch = loop.watch(pair.ours.get(), {.read = true}, [&] {
    ++calls;
    pair.take_one();
  });
  run_a_while(loop);
  EXPECT_EQ(calls, 0);
  pair.say("abc");
  EXPECT_TRUE(runs_until(loop, [&] { return calls == 3; }));
  run_a_while(loop);
  EXPECT_EQ(calls, 3);
}

TEST(EventLoop, WaitsForWhatIsWanted_AndForNothingMeanwhile) {
  EventLoop loop;
  const Pair pair;
  int calls = 0;
  auto watch = loop.watch(pair.ours.get(), {}, [&] { ++calls; });
  pair.say("a");
  run_a_while(loop);
  EXPECT_EQ(calls, 0);
  watch.want({.write = true});
  EXPECT_TRUE(runs_until(loop, [&] { return calls > 0; }));
  watch.want({});
  calls = 0;
  run_a_while(loop);
  EXPECT_EQ(calls, 0);
  watch.want({.read = true});
  EXPECT_TRUE(runs_until(loop, [&] { return calls > 0; }));
}

TEST(EventLoop, ReportsThatTheOtherEndHasGone) {
  EventLoop loop;
  Pair pair;
  bool gone = false;
  EventLoop::Watch watch = loop.watch(pair.ours.get(), {.read = true}, [&] {
    char byte = 0;
    gone = ::read(pair.ours.get(), &byte, 1) == 0;
    watch = {};
  });
  pair.theirs = {};
  EXPECT_TRUE(runs_until(loop, [&] { return gone; }));
}

TEST(EventLoop, DoesNotReportRegularFiles) {
  EventLoop loop;
  const FileDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  int calls = 0;
  const auto watch = loop.watch(file.get(), {.read = true, .write = true}, [&] { ++calls; });
  run_a_while(loop);
  EXPECT_EQ(calls, 0);
}

TEST(EventLoop, SaysWhyADescriptorIsNotWatched) {
  EventLoop loop;
  constexpr int kNone = 1'000'000;
  try {
    const auto watch = loop.watch(kNone, {.read = true}, [] {});
    FAIL() << "a closed descriptor was watched";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "watching a descriptor: Bad file descriptor");
  }
}

TEST(EventLoop, LetsACallEndItsOwnWatch_AndThatOfAnother) {
  EventLoop loop;
  const Pair one;
  const Pair other;
  int calls = 0;
  std::array<EventLoop::Watch, 2> watches;
  const auto end_both = [&] {
    ++calls;
    watches = {};
  };
  watches[0] = loop.watch(one.ours.get(), {.read = true}, end_both);
  watches[1] = loop.watch(other.ours.get(), {.read = true}, end_both);
  one.say("a");
  other.say("b");
  EXPECT_TRUE(runs_until(loop, [&] { return calls > 0; }));
  run_a_while(loop);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, CallsATimerOnce_NotBeforeItsTime) {
  EventLoop loop;
  EventLoop::Timer timer(loop);
  const auto begin = Clock::now();
  int calls = 0;
  timer.start(30ms, [&] { ++calls; });
  EXPECT_TRUE(runs_until(loop, [&] { return calls > 0; }));
  EXPECT_GE(Clock::now() - begin, 30ms);
  run_a_while(loop);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ForgetsATimerThatIsStopped_StartedAnewOrGone) {
  EventLoop loop;
  std::vector<std::string> called;
  EventLoop::Timer stopped(loop);
  EventLoop::Timer renewed(loop);
  std::optional<EventLoop::Timer> gone(std::in_place, loop);
  stopped.start(1ms, [&] { called.emplace_back("stopped"); });
  renewed.start(1ms, [&] { called.emplace_back("old"); });
  gone->start(1ms, [&] { called.emplace_back("gone"); });
  std::this_thread::sleep_for(10ms);  // all are due now
  stopped.stop();
  gone.reset();
  renewed.start(Clock::now(), [&] {
    called.emplace_back("new");
    renewed.start(1ms, [&] { called.emplace_back("from within"); });
  });
  EXPECT_TRUE(runs_until(loop, [&] { return called.size() >= 2; }));
  run_a_while(loop);
  EXPECT_EQ(called, (std::vector<std::string>{"new", "from within"}));
}

TEST(EventLoop, TakesCallsFromOtherThreads_InTheirOrder_AndStops) {
  EventLoop loop;
  std::vector<int> order;
  std::thread runner([&] { loop.run(); });
  for (int i = 0; i < 1000; ++i) loop.post([&order, i] { order.push_back(i); });
  loop.stop();
  runner.join();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
  loop.stop();  // before it runs again
  loop.run();
}

/// A child holds all open files, so that closing a descriptor does not end the file. What the loop is told of it later
/// must not reach a watch that is gone.
TEST(EventLoop, ForgetsDescriptorsThatAChildStillHolds) {
  EventLoop loop;
  int calls = 0;
  std::vector<std::unique_ptr<Pair>> held;
  std::vector<std::unique_ptr<EventLoop::Watch>> watches;
  for (int i = 0; i < 100; ++i) {
    held.push_back(std::make_unique<Pair>());
    watches.push_back(std::make_unique<EventLoop::Watch>(
        loop.watch(held.back()->ours.get(), {.read = true, .write = true}, [&] { ++calls; })));
  }
  const Holder child;
  watches.clear();
  for (const auto& pair : held) {
    pair->say("a");
    pair->ours = {};
  }
  constexpr int kTimes = 10'000;
  int read = 0;
  for (int i = 0; i < kTimes; ++i) {
    const Pair pair;
    EventLoop::Watch watch = loop.watch(pair.ours.get(), {.read = true}, [&] {
      ++read;
      pair.take_one();
    });
    pair.say("b");
    const int before = read;
    ASSERT_TRUE(runs_until(loop, [&] { return read > before; }));
  }
  EXPECT_EQ(read, kTimes);
  EXPECT_EQ(calls, 0);
}

TEST(EventLoop, StaysItsParents_WhenItEndsInAForksChild) {
  auto loop = std::make_unique<EventLoop>();
  const Pair pair;
  int calls = 0;
  auto watch = std::make_unique<EventLoop::Watch>(loop->watch(pair.ours.get(), {.read = true}, [&] {
    ++calls;
    pair.take_one();
  }));
  auto timer = std::make_unique<EventLoop::Timer>(*loop);
  timer->start(10ms, [&] { ++calls; });
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    watch.reset();
    timer.reset();
    loop.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pair.say("a");
  EXPECT_TRUE(runs_until(*loop, [&] { return calls >= 2; }));
}

}  // namespace
}  // namespace sinew
