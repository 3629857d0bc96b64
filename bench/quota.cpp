#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <sinew/collectives/world.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

// All-reduces of 8 bytes for some seconds: how long the mean and the longest call took, and how many stood still for
// more than 10 ms. bench/scorecard/quota.sh starts the ranks in control groups with CPU quotas and judges.
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kStall_s = 10e-3;
/// To start a World takes CPU time, too. The kernel counts it in periods of 100 ms, which shall be over.
constexpr std::chrono::milliseconds kPeriods(300);

struct Options {
  double seconds = 4;
  double every_s = 0;
  bool sleepers = false;
};

/// Times calls until the seconds are over.
class Calls {
 public:
  explicit Calls(const Options& options) : options_(options), first_(Clock::now()) {}

  bool go_on() const { return Seconds(Clock::now() - first_).count() < options_.seconds; }

  template <class Call>
  void time(Call&& call) {
    const auto before = Clock::now();
    call();
    const auto after = Clock::now();
    const double took_s = Seconds(after - before).count();
    ++count;
    sum_s += took_s;
    worst_s = std::max(worst_s, took_s);
    if (took_s > kStall_s) ++stalls;
    if (options_.every_s > 0) {
      const auto due =
          std::chrono::duration_cast<Clock::duration>(Seconds(options_.every_s * static_cast<double>(count)));
      std::this_thread::sleep_until(first_ + due);  // at the same times on both ranks
    }
  }

  void print() const {
    std::puts(sinew::json_object({{"calls", count},
                                  {"mean_us", sum_s / static_cast<double>(count) * 1e6, 2},
                                  {"worst_ms", worst_s * 1e3, 2},
                                  {"stalls", stalls}})
                  .c_str());
  }

  long count = 0;
  long stalls = 0;
  double sum_s = 0;
  double worst_s = 0;

 private:
  const Options& options_;
  Clock::time_point first_;
};

/// Every rank says with each call whether it goes on, so that all make the same number of calls.
void measure_all_reduces(const Options& options) {
  sinew::World world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  std::array<double, 1> going{};
  std::this_thread::sleep_for(kPeriods);
  for (int warm = 0; warm < 100; ++warm) all.all_reduce(going).get();
  Calls calls(options);
  do {
    going[0] = calls.go_on() ? 1 : 0;
    calls.time([&] { all.all_reduce(going).get(); });
  } while (going[0] == world.size());
  std::array<double, 1> worst{calls.worst_s};
  all.all_reduce(worst, sinew::ReduceOp::Max).get();
  calls.worst_s = worst[0];
  if (world.rank() == 0) calls.print();
}

std::uint64_t wait_for(int event) {
  std::uint64_t value = 0;
  if (::read(event, &value, sizeof value) != sizeof value) std::abort();
  return value;
}

void wake(int event, std::uint64_t value) {
  if (::write(event, &value, sizeof value) != sizeof value) std::abort();
}

/// What the kernel alone needs: two processes that wake each other and sleep in between.
void measure_sleepers(const Options& options) {
  constexpr std::uint64_t kAgain = 1;
  constexpr std::uint64_t kEnd = 2;
  const int there = ::eventfd(0, EFD_CLOEXEC);
  const int back = ::eventfd(0, EFD_CLOEXEC);
  if (::fork() == 0) {
    while (wait_for(there) == kAgain) wake(back, kAgain);
    ::_exit(0);
  }
  Calls calls(options);
  while (calls.go_on()) {
    calls.time([&] {
      wake(there, kAgain);
      wait_for(back);
    });
  }
  wake(there, kEnd);
  ::wait(nullptr);
  calls.print();
}

}  // namespace

int main(int argc, char** argv) {
  sinew::bench::CommandLine command(
      "times all-reduces of 8 bytes, and counts those that stand still for more than 10 ms");
  Options options;
  command.option("--seconds", options.seconds, "how long", {.least = 0.1});
  command.option("--every", options.every_s, "seconds from the beginning of one call to that of the next; 0: at once",
                 {.least = 0});
  command.flag("--sleepers", options.sleepers, "without sinew: two processes that sleep and wake each other");
  command.parse(argc, argv);
  if (options.sleepers) {
    measure_sleepers(options);
  } else {
    measure_all_reduces(options);
  }
}
