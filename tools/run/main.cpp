#include <signal.h>

#include <fmt/format.h>

#include <sinew/core/config.hpp>
#include <sinew/tools/common/command_line.hpp>
#include <sinew/tools/version/version_text.hpp>

#include "agent.hpp"
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
    "unchanged. Signals are passed on, but for those that it was started to ignore. A signal that ends a job leaves "
    "its\n"
    "ranks the time of --grace, then SIGKILL ends them; a second one ends them at once. The exit code is that of the\n"
    "first rank that failed, 128 plus the signal's number if a signal ended it.";

int launch(const Options& options) {
  const sinew::Config config = sinew::Config::from_environment();
  const SignalDescriptor signals(
      {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH});
  InsideLine inside_line;
  for (int attempt = 0;; ++attempt) {
    Job job(options, config, signals, inside_line);
    if (attempt > 0) {
      job.report(fmt::format("starting all {} ranks again ({} of {})", options.ranks, attempt, options.restarts));
    }
    job.start();
    const int exit_code = job.finish();
    if (exit_code == 0) return job.output_lost() ? 1 : 0;
    if (job.is_unwanted() || attempt == options.restarts) return exit_code;
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
