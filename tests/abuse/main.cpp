// Kills ranks of jobs at random moments, and makes life hard for others, and judges what comes of it: `abuse kills
// --runs 200` and `abuse hardships` are the whole.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apart.hpp"
#include "hardship_run.hpp"
#include "kill_run.hpp"
#include "victim.hpp"

namespace {

using namespace sinew::abuse;

constexpr double kMostSeconds = 2;

struct Tally {
  int runs = 0, faults = 0, hangs = 0, leaks = 0, slow = 0;
  double worst_s = 0;

  void add(const KillOutcome& o) {
    ++runs;
    faults += !o.fault.empty() && !o.is_hang ? 1 : 0;
    hangs += o.is_hang ? 1 : 0;
    leaks += o.left_over.empty() ? 0 : 1;
    slow += o.worst_s > kMostSeconds ? 1 : 0;
    worst_s = std::max(worst_s, o.worst_s);
  }
  bool ok() const { return runs > 0 && faults + hangs + leaks + slow == 0; }
};

struct Options {
  int runs = 200;
  std::uint64_t seed = 1;
  std::vector<std::string> transports{"shm", "tcp", "ucx", "ofi"};
  std::vector<std::string> moments{std::begin(kMomentNames), std::end(kMomentNames)};
  std::vector<std::string> hardships{std::begin(kHardshipNames), std::end(kHardshipNames)};
  std::string launcher;
  std::string jumping_clock;
};

Moment moment_of(const std::string& name) {
  return static_cast<Moment>(std::ranges::find(kMomentNames, name) - std::begin(kMomentNames));
}

/// Every transport with every moment in turn; who, how many and when are random.
KillRun run_number(int number, const Options& options, std::mt19937_64& random) {
  const auto transports = static_cast<int>(options.transports.size());
  KillRun run{
      .transport = options.transports[static_cast<std::size_t>(number % transports)],
      .ranks = 2 + static_cast<int>(random() % 5),
      .moment = moment_of(options.moments[static_cast<std::size_t>(number / transports) % options.moments.size()]),
      .delay_us = static_cast<std::int64_t>(random() % 20000)};
  run.victim = static_cast<int>(random() % static_cast<std::uint64_t>(run.ranks));
  return run;
}

int kills(const Options& options, const std::string& self) {
  std::mt19937_64 random(options.seed);
  std::map<std::pair<std::string, int>, Tally> by_kind;
  Tally all;
  for (int number = 0; number < options.runs; ++number) {
    const KillRun run = run_number(number, options, random);
    const KillOutcome outcome = run_kill(run, options.launcher, self);
    all.add(outcome);
    by_kind[{run.transport, static_cast<int>(run.moment)}].add(outcome);
    const std::string left = outcome.left_over.empty() ? "" : "; left behind: " + outcome.left_over;
    if (!outcome.fault.empty() || !left.empty() || outcome.worst_s > kMostSeconds)
      fmt::print(stderr, "run {} of seed {}: {}: {:.3f} s ({}); {}{}\n", number, options.seed, run.to_string(),
                 outcome.worst_s, outcome.last_said, outcome.fault, left);
  }
  fmt::print("{:<6} {:<10} {:>5} {:>10} {:>7} {:>6} {:>6}\n", "", "killed in", "runs", "longest s", "faults", "hangs",
             "leaks");
  for (const auto& [kind, t] : by_kind)
    fmt::print("{:<6} {:<10} {:>5} {:>10.3f} {:>7} {:>6} {:>6}\n", kind.first, kMomentNames[kind.second], t.runs,
               t.worst_s, t.faults, t.hangs, t.leaks);
  fmt::print("{}\n", nlohmann::json{{"runs", all.runs},
                                    {"seed", options.seed},
                                    {"longest_s", all.worst_s},
                                    {"faults", all.faults},
                                    {"hangs", all.hangs},
                                    {"leaks", all.leaks},
                                    {"ok", all.ok()}}
                         .dump());
  return all.ok() ? 0 : 1;
}

Hardship hardship_of(const std::string& name) {
  return static_cast<Hardship>(std::ranges::find(kHardshipNames, name) - std::begin(kHardshipNames));
}

/// Each hardship over each transport.
int hardships(const Options& options, const std::string& self) {
  int runs = 0, faults = 0;
  for (const std::string& transport : options.transports) {
    for (const std::string& name : options.hardships) {
      const HardshipRun run{.transport = transport, .hardship = hardship_of(name)};
      const std::string fault = run_hardship(run, options.launcher, self, options.jumping_clock);
      fmt::print("{:<6} {:<12} {}\n", transport, name, fault.empty() ? "ok" : fault);
      std::fflush(stdout);
      ++runs;
      faults += fault.empty() ? 0 : 1;
    }
  }
  fmt::print("{}\n", nlohmann::json{{"runs", runs}, {"faults", faults}, {"ok", runs > 0 && faults == 0}}.dump());
  return faults == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("kills ranks of jobs, and judges what the others make of it");
  app.require_subcommand(1);
  Options options;
  // Before this lives apart: in a mount namespace of its own, inside a chroot, the link shows the path from outside.
  const std::filesystem::path self = std::filesystem::canonical("/proc/self/exe"), here = self.parent_path();
  options.launcher = here / "sinew-run";
  options.jumping_clock = here.parent_path() / "fakes" / "libjumping_clock.so";
  CLI::App* of_kills = app.add_subcommand("kills", "jobs of 2 to 6 ranks, each transport and moment in turn");
  of_kills->add_option("--runs", options.runs, "how many")->check(CLI::PositiveNumber)->capture_default_str();
  of_kills->add_option("--seed", options.seed, "that everything random comes from")->capture_default_str();
  of_kills->add_option("--transports", options.transports, "that take turns")->delimiter(',');
  const std::vector<std::string> moments = options.moments;
  of_kills->add_option("--moments", options.moments, "that take turns")->delimiter(',')->check(CLI::IsMember(moments));
  bool alone = false;
  of_kills->add_flag("--alone", alone,
                     "each rank is started by itself, and rank 0 serves the store; not killed at start: that somebody "
                     "died who has never come nobody can know");
  of_kills->add_option("--launcher", options.launcher, "sinew-run")->capture_default_str();
  CLI::App* of_hardships = app.add_subcommand("hardships", "jobs of 3 ranks, each transport with each hardship");
  const std::vector<std::string> hardship_names = options.hardships;
  of_hardships->add_option("--transports", options.transports, "that are tried")->delimiter(',');
  of_hardships->add_option("--only", options.hardships, "of the hardships")
      ->delimiter(',')
      ->check(CLI::IsMember(hardship_names));
  of_hardships->add_option("--launcher", options.launcher, "sinew-run")->capture_default_str();
  of_hardships->add_option("--clock", options.jumping_clock, "library of a clock that jumps")->capture_default_str();
  std::string board, moment;
  CLI::App* of_victim = app.add_subcommand("victim", "a rank, as kills starts it");
  of_victim->add_option("--board", board, "file that it shares with whoever kills")->required();
  of_victim->add_option("--moment", moment, "where it can be killed")->required()->check(CLI::IsMember(moments));
  std::string hardship;
  CLI::App* of_enduring = app.add_subcommand("enduring", "a rank, as hardships starts it");
  of_enduring->add_option("--board", board, "file that it shares with whoever judges")->required();
  of_enduring->add_option("--hardship", hardship, "what it lives with")
      ->required()
      ->check(CLI::IsMember(hardship_names));
  CLI11_PARSE(app, argc, argv);
  if (of_victim->parsed()) return run_victim(board, moment_of(moment));
  if (of_enduring->parsed()) return run_enduring(board, hardship_of(hardship));
  live_apart();
  if (of_hardships->parsed()) return hardships(options, self);
  if (alone) {
    options.launcher.clear();
    std::erase(options.moments, std::string(kMomentNames[static_cast<int>(Moment::Start)]));
  }
  return kills(options, self);
}
