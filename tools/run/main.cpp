#include <poll.h>
#include <signal.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/version/version_text.hpp>

#include "agent.hpp"
#include "backoff.hpp"
#include "health_check.hpp"
#include "job.hpp"
#include "options.hpp"
#include "signals.hpp"

namespace {

using namespace sinew::run;

constexpr const char* kHelp =
    "Starts PROGRAM once per rank and looks after the ranks until all have ended. In an allocation of Slurm's its "
    "nodes\n"
    "and their tasks are the default; -n N takes the first N.\n"
    "\n"
    "Each gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and SINEW_JOB, which is all "
    "that\n"
    "World::from_environment() needs. Their lines appear behind [RANK], however long; --no-prefix passes bytes on\n"
    "unchanged. Rank 0 alone gets what sinew-run gets on its standard input, unless that is a terminal. Signals are "
    "passed on, but for those that it was started to ignore. A signal that ends a job leaves "
    "its\n"
    "ranks the time of --grace, then SIGKILL ends them; a second one ends them at once. The exit code is that of the\n"
    "first rank that failed, 128 plus the signal's number if a signal ended it, 255 if its host was lost. It is 75 "
    "where\n"
    "ranks ended with 75 and none failed: these have saved their state, and are not started again.";

/// Waits between two starts. Returns the signal that ends the job meanwhile; 0: none came.
int wait_for_signal(const SignalDescriptor& signals, sinew::Duration patience) {
  const sinew::Deadline deadline = sinew::Deadline::after(patience);
  while (!deadline.passed()) {
    pollfd ready{signals.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, deadline.left_ms(INT_MAX));
    while (const int number = signals.next()) {
      if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT) return number;
      if (number == SIGTSTP) ::raise(SIGSTOP);
    }
  }
  return 0;
}

/// Says that a signal ends the job while no rank runs. Returns the exit code.
int end_by(int number, std::string_view when) {
  fmt::print(stderr, "sinew-run: {} ends the job {}\n", signal_name(number), when);
  return 128 + number;
}

int launch(Options options) {
  const sinew::Config config = sinew::Config::from_environment();
  const SignalDescriptor signals(
      {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH});
  if (options.check) {
    if (const int number = HealthCheck(config, signals).run(options); number != 0)
      return end_by(number, "before the ranks were started");
  }
  InsideLine inside_line;
  Backoff backoff(options.backoff);
  for (int attempt = 0;; ++attempt) {
    const sinew::Clock::time_point start = sinew::Clock::now();
    sinew::Duration wait{};
    {
      Job job(options, attempt, config, signals, inside_line);
      job.start();
      if (attempt == 0 && !options.logs.folder.empty()) job.report(fmt::format("log files: {}", options.logs.folder));
      const int exit_code = job.finish();
      if (exit_code == 0) return job.output_lost() ? 1 : 0;
      if (job.is_over() || options.elastic || attempt == options.restarts) return exit_code;
      wait = backoff.after(sinew::Clock::now() - start);
      job.report(fmt::format("starting all {} ranks again in {} s ({} of {})", options.ranks,
                             std::chrono::duration<double>(wait).count(), attempt + 1, options.restarts));
      job.finish();  // until this has been read, too
      if (job.is_over()) return exit_code;
    }
    if (const int number = wait_for_signal(signals, wait); number != 0)
      return end_by(number, "before the ranks were started again");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kHelp, "sinew-run");
  app.set_version_flag("--version", sinew::tools::version_text());
  CommandLine line;
  add_options(app, line);
  int exit_code = 0;
  app.callback([&] { exit_code = line.agent ? run_agent() : launch(checked(line, app.remaining())); });
  const int problem = sinew::tools::run(app, argc, argv);
  return problem != 0 ? problem : exit_code;
}
