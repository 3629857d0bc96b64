#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <sinew/collectives/world.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

// Rank 1 computes and the last rank is stopped while the others wait for both; each that waits says what it was told of
// them, and whether the call ended well once both had come. bench/scorecard/late.sh judges.
namespace {

using std::chrono::duration;

/// A child of this process that wakes it so long after it was told to. Made before there is a World.
class Waker {
 public:
  explicit Waker(double seconds) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) std::abort();
    const pid_t sleeper = ::getpid();
    if (::fork() == 0) {
      char go = 0;
      ::close(ends[1]);
      if (::read(ends[0], &go, 1) == 1) {
        std::this_thread::sleep_for(duration<double>(seconds));
        ::kill(sleeper, SIGCONT);
      }
      ::_exit(0);
    }
    ::close(ends[0]);
    go_ = ends[1];
  }
  void stop_now() const {
    if (::write(go_, "!", 1) == 1) ::raise(SIGSTOP);
  }

 private:
  int go_ = -1;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

int main(int argc, char** argv) {
  sinew::bench::CommandLine command("shows that a rank that computes or is stopped is late, and nobody dies of it");
  double computes = 60;
  double stopped = 30;
  command.option("--computes", computes, "seconds that rank 1 does not call", {.least = 0});
  command.option("--stopped", stopped, "seconds that the last rank is stopped", {.least = 0});
  command.parse(argc, argv);

  const Waker waker(stopped);
  sinew::World world = sinew::World::from_environment();
  const int last = world.size() - 1;
  std::array<double, 16> data{1};
  world.communicator().all_reduce(data).get();
  world.communicator().barrier().get();

  if (world.rank() == 1) std::this_thread::sleep_for(duration<double>(computes));
  if (world.rank() == last) waker.stop_now();
  data[0] = 1;
  sinew::Work work = world.communicator().all_reduce(data);
  bool told = true;
  std::string verdict;
  if (world.rank() != 1 && world.rank() != last) {
    const auto look = std::chrono::duration_cast<sinew::Duration>(duration<double>(stopped * 2 / 3));
    static_cast<void>(work.wait(sinew::Deadline::after(look)));
    verdict = world.communicator().verdict();
    told = contains(verdict, "rank 1 is late: it has been in no call for") &&
           contains(verdict, "rank " + std::to_string(last) + " is late") &&
           contains(verdict, "its process is stopped");
  }
  const sinew::Status end = work.wait(
      sinew::Deadline::after(std::chrono::duration_cast<sinew::Duration>(duration<double>(computes * 2 + 30))));
  const bool well = end.ok() && data[0] == world.size();
  if (!told || !well) {
    std::fprintf(stderr, "rank %d: told '%s', ended %s\n", world.rank(), verdict.c_str(),
                 std::string(end.message()).c_str());
  }
  std::puts(sinew::json_object({{"rank", world.rank()}, {"told", told}, {"well", well}}).c_str());
  return told && well ? 0 : 1;
}
