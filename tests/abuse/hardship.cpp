#include "hardship.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <stdexcept>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/error.hpp>

#include "board.hpp"

namespace sinew::abuse {
namespace {

/// Opens no more than there is room for below the limit.
void fill_the_table() {
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
}

void interrupt_all_the_time() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 1000}, {0, 1000}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
}

void limit(int resource, rlim_t most) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  now.rlim_cur = std::min(now.rlim_max, most);
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) throw_errno("a limit");
}

/// One more than the highest number that is open; holes below it are filled.
rlim_t descriptors_in_use() {
  rlim_t most = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    const int number = std::atoi(entry->d_name);
    if (number != ::dirfd(folder)) most = std::max(most, static_cast<rlim_t>(number));
  }
  ::closedir(folder);
  return most + 1;
}

rlim_t address_space_in_use() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void fork_a_child() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  if (child < 0) throw_errno("fork");
  ::waitpid(child, nullptr, 0);
}

void begin(Hardship hardship, bool is_hit) {
  if (hardship == Hardship::Signals) interrupt_all_the_time();
  if (!is_hit) return;
  if (hardship == Hardship::Descriptors) {
    limit(RLIMIT_NOFILE, descriptors_in_use());
    fill_the_table();
  }
  if (hardship == Hardship::Memory) limit(RLIMIT_AS, address_space_in_use() + (rlim_t{16} << 20));
}

/// What a rank gives in a round.
std::span<std::int64_t> given(World& world, int i, std::vector<std::int64_t>& data) {
  const std::span part = std::span(data).first(1 + static_cast<std::size_t>(i * i * 7) % data.size());
  std::ranges::fill(part, world.rank() + i);
  return part;
}

/// Whether a sum was right on this rank.
bool round(World& world, int i, std::vector<std::int64_t>& data) {
  const std::span part = given(world, i, data);
  Communicator& all = world.communicator();
  all.all_reduce(part).get();
  const int n = world.size();
  return std::ranges::all_of(part, [&](std::int64_t x) { return x == n * (n - 1) / 2 + n * i; });
}

void endure(World& world, Hardship hardship, RankLine& line) {
  const bool is_hit = world.rank() == kHit;
  std::vector<std::int64_t> data(1 << 17);
  for (int i = 0; i < kRounds; ++i) {
    if (hardship == Hardship::Throw && is_hit && i == kRounds / 3) {
      const Work under_way = world.communicator().all_reduce(given(world, i, data));
      throw std::runtime_error("the user's own");
    }
    if (hardship == Hardship::Fork && is_hit && i % 10 == 0) fork_a_child();
    line.right += round(world, i, data) ? 1 : 0;
    // Between hardships a rank also makes what needs memory and connections of its own.
    if (i % 50 == 49 && hardship != Hardship::Descriptors && hardship != Hardship::Memory) {
      world.communicator().split(world.rank() % 2).barrier().get();
    }
  }
  if (hardship == Hardship::Descriptors) {
    limit(RLIMIT_NOFILE, RLIM_INFINITY);
    world.communicator().split(0).barrier().get();
  }
}

}  // namespace

int run_enduring(const std::string& file, Hardship hardship) {
  Board& board = map_board(file, false);
  const int rank = std::atoi(std::getenv("RANK"));
  RankLine& line = board.ranks[static_cast<std::size_t>(rank)];
  line.pid = ::getpid();
  line.lost = -1;
  try {
    World world = World::from_environment();
    world.communicator().barrier().get();
    begin(hardship, rank == kHit);
    line.in_moment = 1;
    endure(world, hardship, line);
    world.communicator().barrier().get();
  } catch (const Error& e) {
    tell(line, e);
    return 3;
  } catch (const std::exception&) {
    line.returned_ns = now_ns();
    return 4;
  }
  line.returned_ns = now_ns();
  return 0;
}

}  // namespace sinew::abuse
