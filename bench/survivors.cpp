#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <sinew/collectives/world.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

// One rank writes the time into a file and kills itself between two of many all-reduces; each other rank says whom it
// lost and how much later it knew. bench/scorecard/survivors.sh judges.
namespace {

/// Since boot: one clock for all processes of a host.
double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// What a rank leaves behind that holds its descriptors: a child of fork, which may have a child in turn, or one of the
/// system call itself, for which no handler of pthread_atfork runs. `Early`: forked before there is a World.
enum class Leaves { Nothing, Early, Child, Grandchild, Clone };
const std::map<std::string, Leaves> kLeaves{{"nothing", Leaves::Nothing},
                                            {"early", Leaves::Early},
                                            {"child", Leaves::Child},
                                            {"grandchild", Leaves::Grandchild},
                                            {"clone", Leaves::Clone}};

/// In a session of its own, as a launcher kills the process group of a rank that has ended.
[[noreturn]] void linger(bool leaves_another) {
  constexpr unsigned kSeconds = 60;  // longer than any job here, and an end where nobody kills it
  ::setsid();
  if (leaves_another && ::fork() != 0) ::_exit(0);
  ::alarm(kSeconds);
  for (;;) ::pause();
}

/// The child, or -1. Of a grandchild this is the parent, which has gone.
pid_t leave(Leaves what) {
  if (what == Leaves::Nothing) return -1;
  const pid_t child = what == Leaves::Clone ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) : ::fork();
  if (child == 0) linger(what == Leaves::Grandchild);
  return child;
}

void die(const std::string& stamp) {
  std::ofstream(stamp) << std::to_string(now_s());
  ::kill(::getpid(), SIGKILL);
}

double stamped_s(const std::string& stamp) {
  double at = 0;
  std::ifstream(stamp) >> at;
  return at;
}

/// A hundred right sums among those who are left.
bool goes_on(sinew::World& world) {
  for (int call = 0; call < 100; ++call) {
    std::array<double, 512> data{};
    data.fill(world.rank() + call);
    world.communicator().all_reduce(data).get();
    const int n = world.size();
    const int sum = n * (n - 1) / 2 + n * call;
    if (data.back() != sum) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  sinew::bench::CommandLine command("measures how soon the death of a rank is known to all others");
  int victim = 0;
  std::string stamp;
  command
      .option("--victim", victim, "rank that kills itself; -1: whoever runs this ends a host or a link", {.least = -1})
      .required();
  command.option("--stamp", stamp, "file for the time of its death").required();
  std::string leaves_word = "nothing";
  command.word("--leaves", leaves_word, "what the victim leaves behind that holds its descriptors for a minute",
               {"nothing", "early", "child", "grandchild", "clone"});
  command.parse(argc, argv);
  const Leaves leaves = kLeaves.at(leaves_word);

  const pid_t early = leaves == Leaves::Early ? leave(leaves) : -1;  // of every rank: nobody knows its number yet
  sinew::World world = sinew::World::from_environment();
  std::array<float, 1024> data{};
  constexpr int kCalls = 100000;
  try {
    for (int call = 0; call < kCalls || victim < 0; ++call) {
      if (world.rank() == victim && call == kCalls / 1000) {
        if (leaves != Leaves::Early) leave(leaves);
        die(stamp);
      }
      world.communicator().all_reduce(data).get();
    }
  } catch (const sinew::Error& error) {
    const double seconds = now_s() - stamped_s(stamp);
    if (early > 0) ::kill(early, SIGKILL);
    const int rank = world.rank();
    if (victim < 0) {
      std::puts(sinew::json_object({{"rank", rank},
                                    {"lost", error.rank()},
                                    {"code", name_of(error.code())},
                                    {"seconds", seconds, 6},
                                    {"message", error.what()}})
                    .c_str());
      return 0;
    }
    const double before = now_s();
    sinew::World next = world.shrink();
    const double shrink_seconds = now_s() - before;
    const bool went_on = goes_on(next);
    std::puts(sinew::json_object({{"rank", rank},
                                  {"lost", error.code() == sinew::Code::PeerLost ? error.rank() : -1},
                                  {"code", name_of(error.code())},
                                  {"seconds", seconds, 6},
                                  {"shrink_seconds", shrink_seconds, 6},
                                  {"went_on", went_on}})
                  .c_str());
    return 0;
  }
  std::fprintf(stderr, "rank %d: all calls ended well, but rank %d is dead\n", world.rank(), victim);
  return 1;
}
