#include "hardship_run.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/system/file_text.hpp>
#include <support/scratch_folder.hpp>

#include "board.hpp"
#include "jobs.hpp"
#include "leaks.hpp"

namespace sinew::abuse {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{60};

void stop_for_a_while(pid_t pid) {
  ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(pid, SIGCONT);
}

/// What is wrong with one rank; empty: nothing.
std::string fault_of(const HardshipRun& run, int rank, const RankLine& line) {
  const bool may_end = run.hardship == Hardship::Throw || run.hardship == Hardship::Memory;
  const std::string said(line.said.data());
  if (line.right == kRounds && line.code == 0 && line.returned_ns != 0) {
    return run.hardship == Hardship::Throw ? fmt::format("rank {} did not hear of what rank {} threw", rank, kHit) : "";
  }
  if (may_end && rank == kHit) return "";
  const bool names_it = line.lost == kHit || said.find(fmt::format("rank {}", kHit)) != std::string::npos;
  if (may_end && line.code != 0 && names_it) return "";
  return fmt::format("rank {}: {} of {} sums right, {}", rank, line.right.load(), kRounds,
                     said.empty() ? "and then no word" : said);
}

}  // namespace

std::string HardshipRun::to_string() const {
  return fmt::format("{}, {} ranks, {}", transport, ranks, kHardshipNames[static_cast<int>(hardship)]);
}

std::string run_hardship(const HardshipRun& run, const std::string& launcher, const std::string& self,
                         const std::string& jumping_clock) {
  const test::ScratchFolder folder(std::filesystem::temp_directory_path());
  const std::string file = folder / "board";
  Board& board = map_board(file, true);
  const auto before = what_is_there();
  ::setenv("SINEW_TRANSPORTS", run.transport.c_str(), 1);
  ::setenv("SINEW_TIMEOUT", "30s", 1);
  if (run.hardship == Hardship::Clock) ::setenv("LD_PRELOAD", jumping_clock.c_str(), 1);
  Job job({self, "enduring", "--board", file, "--hardship", kHardshipNames[static_cast<int>(run.hardship)]}, run.ranks,
          launcher, folder / "output");
  ::unsetenv("LD_PRELOAD");
  const auto lines = std::span(board.ranks).first(static_cast<std::size_t>(run.ranks));
  const RankLine& hit = lines[kHit];
  if (run.hardship == Hardship::Stop && waited_for([&] { return hit.right >= kRounds / 10; }, kPatience)) {
    stop_for_a_while(hit.pid);
  }
  const bool ended = waited_for([&job] { return job.has_ended(); }, kPatience);
  if (!ended) {
    for (const RankLine& line : lines) {
      if (is_alive(line.pid)) ::kill(line.pid, SIGKILL);
    }
    job.end();
  }
  std::string fault = ended ? "" : "it hung; ";
  const std::string output = file_text(folder / "output").value_or("");
  for (const char* crash : {"SIGSEGV", "SIGBUS", "SIGILL", "signal 11", "signal 7"}) {
    if (output.find(crash) != std::string::npos) fault += fmt::format("a rank ended by {}; ", crash);
  }
  for (int r = 0; r < run.ranks; ++r) {
    const std::string of_rank = fault_of(run, r, lines[static_cast<std::size_t>(r)]);
    if (!of_rank.empty()) fault += of_rank + "; ";
  }
  std::set<std::string> left;
  waited_for([&] { return (left = left_since(before)).empty(); }, seconds(1));
  return left.empty() ? fault : fmt::format("{}left behind: {}", fault, fmt::join(left, ", "));
}

}  // namespace sinew::abuse
