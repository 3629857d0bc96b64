#include "kill_run.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <support/scratch_folder.hpp>

#include "board.hpp"
#include "jobs.hpp"
#include "leaks.hpp"

namespace sinew::abuse {
namespace {

using std::chrono::seconds;

constexpr seconds kKillPatience{40};

/// Whether an error is that the victim is lost. A half of the World has other numbers: there its text counts.
bool is_of_death(const KillRun& run, const RankLine& line) {
  if (line.code != static_cast<std::int32_t>(Code::PeerLost)) return false;
  if (run.moment != Moment::Split) return line.lost == run.victim;
  return std::string(line.said.data()).find(fmt::format("rank {} (", run.victim)) != std::string::npos;
}

/// What is wrong with what a survivor says; empty: nothing.
std::string fault_of(const KillRun& run, int rank, const RankLine& line, std::int64_t killed_ns) {
  if (line.returned_ns == 0) return fmt::format("rank {} did not return", rank);
  const std::string said =
      fmt::format("rank {} says {} of rank {}: {}", rank, name_of(static_cast<Code>(line.code.load())),
                  line.lost.load(), line.said.data());
  if (line.returned_ns < killed_ns) return said + ", before anybody was killed";
  const bool is_shrinking = run.moment == Moment::Shrink;  // where who is missing is no error
  if (is_shrinking ? line.code != 0 : !is_of_death(run, line)) return said;
  if (run.moment == Moment::Start && line.shrunk == 0) return "";  // there never was a World
  if (line.shrunk != run.ranks - 1)
    return fmt::format("rank {} shrank to {} ranks, expected {}", rank, line.shrunk.load(), run.ranks - 1);
  if (line.right != 100) return fmt::format("rank {} had {} right sums of 100", rank, line.right.load());
  return "";
}

}  // namespace

std::string KillRun::to_string() const {
  return fmt::format("{}, rank {} of {}, {}, after {} us", transport, victim, ranks,
                     kMomentNames[static_cast<int>(moment)], delay_us);
}

KillOutcome run_kill(const KillRun& run, const std::string& launcher, const std::string& self) {
  const test::ScratchFolder folder(std::filesystem::temp_directory_path());
  const std::string file = folder / "board", output = folder / "output";
  Board& board = map_board(file, true);
  const auto before = what_is_there();
  ::setenv("SINEW_TRANSPORTS", run.transport.c_str(), 1);
  ::setenv("SINEW_TIMEOUT", "20s", 1);
  Job job({self, "victim", "--board", file, "--moment", kMomentNames[static_cast<int>(run.moment)]}, run.ranks,
          launcher, output);
  const auto lines = [&] { return std::span(board.ranks).first(static_cast<std::size_t>(run.ranks)); };
  const auto& victim = board.ranks[static_cast<std::size_t>(run.victim)];
  KillOutcome outcome;
  const bool came = waited_for(
      [&] {
        if (run.moment == Moment::Start) return victim.in_moment == 1;
        return std::ranges::all_of(lines(), [](const RankLine& line) { return line.in_moment == 1; });
      },
      kKillPatience);
  std::this_thread::sleep_for(std::chrono::microseconds(run.delay_us));
  board.killed_ns = now_ns();
  if (victim.pid > 0) ::kill(victim.pid, SIGKILL);
  outcome.is_hang = !came || !waited_for([&job] { return job.has_ended(); }, kKillPatience);
  if (outcome.is_hang) {
    for (const RankLine& line : lines()) {
      if (is_alive(line.pid)) ::kill(line.pid, SIGKILL);
    }
    job.end();
  }
  for (int r = 0; r < run.ranks; ++r) {
    const RankLine& line = board.ranks[static_cast<std::size_t>(r)];
    if (r == run.victim) continue;
    const double seconds = line.returned_ns > 0 ? 1e-9 * static_cast<double>(line.returned_ns - board.killed_ns) : 0;
    if (seconds > outcome.worst_s) {
      outcome.worst_s = seconds;
      outcome.last_said = fmt::format("rank {}: {}", r, line.said.data());
    }
    if (outcome.fault.empty()) outcome.fault = fault_of(run, r, line, board.killed_ns);
  }
  if (outcome.is_hang) outcome.fault = came ? "it hung" : "not all ranks came to the moment";
  std::set<std::string> left;
  waited_for([&] { return (left = left_since(before)).empty(); }, seconds(1));
  for (const RankLine& line : lines()) {
    if (is_alive(line.pid)) left.insert(fmt::format("process {}", line.pid.load()));
  }
  outcome.left_over = fmt::format("{}", fmt::join(left, ", "));
  return outcome;
}

}  // namespace sinew::abuse
