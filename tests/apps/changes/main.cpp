// Kills ranks of a training that goes on without them, and lets them come back, again and again. Compares the losses
// with those of an undisturbed run.
// changes --gpt GPT --sinew-run SINEW_RUN --changes 200 --seed 1 --ranks 8 --spares 1 -- --tp 2 --pp 2
// Prints a line of JSON:
// - changes and kinds: how many were made, also by kind.
// - kills: the processes of the training that were killed.
// - joins, replacements and shrinks: how often the job went on with more ranks, with equally many, with fewer.
// - jobs: a job that ends too early is followed by another one.
// - hangs and failures: a hang is a minute without a step.
// - unreported: killed processes that sinew-run did not report.
// - misnamed: processes that errors of ranks call dead although they were not killed.
// - nameless: errors of ranks that name no rank.
// - most_lost: the most steps that were made again after a change.
// - steps and worst: the steps that were compared, and the largest difference of a loss, divided by the loss.
// - longest_pause_s: the longest time without a step.
// - longest_join_s and longest_replacement_s: the same for one kind of change, without the time in which state moved.
// - productive: the time in steps that counted, divided by the time of the jobs.
// Ends with 1 after a hang or a failure, after a wrong name, and if a difference exceeds --most-off or --most-lost.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "disturbed_job.hpp"
#include "metrics_file.hpp"
#include "options.hpp"
#include "processes.hpp"

namespace changes {
namespace {

double rounded(double value) { return std::round(value * 1e3) / 1e3; }

class Changes {
 public:
  explicit Changes(const Options& options)
      : options_(options),
        folder_(options.folder.empty() ? std::filesystem::temp_directory_path() / fmt::format("changes-{}", ::getpid())
                                       : std::filesystem::absolute(options.folder)),
        random_(options.seed) {
    std::filesystem::create_directories(folder_);
  }
  ~Changes() {
    if (options_.folder.empty()) std::filesystem::remove_all(folder_);
  }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    for (bool goes_on = true; goes_on && is_well();) {
      const std::string metrics = file(fmt::format("job{}", counts_.jobs)), log = metrics + ".log";
      const std::map<std::int64_t, Step> steps =
          DisturbedJob(options_, counts_, random_, disturbed(metrics), metrics, log).run();
      compare(steps);
      goes_on = options_.minutes == 0 && (counts_.changes < options_.changes || counts_.kills < options_.kills);
      if (goes_on && options_.one_job) {
        fmt::print(stderr, "the job has ended after {} changes; expected more --steps\n", counts_.changes);
        ++counts_.failures;
      }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{}\n", result(took.count()).dump());
    const bool is_lost = options_.most_lost >= 0 && counts_.most_lost > options_.most_lost;
    return is_well() && compared_ > 0 && worst_ <= options_.most_off && !is_lost ? 0 : 1;
  }

 private:
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  bool is_well() const {
    return counts_.hangs + counts_.failures + counts_.unreported + counts_.misnamed + counts_.nameless == 0;
  }

  nlohmann::json result(double took_s) const {
    nlohmann::json kinds = nlohmann::json::object();
    for (std::size_t i = 0; i < kKindNames.size(); ++i) kinds[std::string(kKindNames[i])] = counts_.kinds[i];
    return {{"changes", counts_.changes},
            {"kinds", kinds},
            {"kills", counts_.kills},
            {"joins", counts_.joins},
            {"replacements", counts_.replacements},
            {"shrinks", counts_.shrinks},
            {"jobs", counts_.jobs},
            {"hangs", counts_.hangs},
            {"failures", counts_.failures},
            {"unreported", counts_.unreported},
            {"misnamed", counts_.misnamed},
            {"nameless", counts_.nameless},
            {"most_lost", counts_.most_lost},
            {"steps", compared_},
            {"worst", worst_},
            {"longest_pause_s", rounded(counts_.longest_pause_s)},
            {"longest_join_s", rounded(counts_.longest_join_s)},
            {"longest_replacement_s", rounded(counts_.longest_replacement_s)},
            {"productive", counts_.wall_s > 0 ? rounded(counts_.productive_s / counts_.wall_s) : 0},
            {"seconds", rounded(took_s)}};
  }

  std::vector<std::string> launcher() const {
    std::vector<std::string> command{options_.sinew_run};
    if (options_.hosts.empty()) {
      command.insert(command.end(), {"-n", fmt::format("{}", options_.ranks)});
    } else {
      command.insert(command.end(), {"--hosts", options_.hosts});
    }
    return command;
  }

  void add_training(std::vector<std::string>& command, const std::string& metrics) const {
    // An undisturbed run has as many steps: the learning rate follows from their number.
    command.insert(command.end(), {options_.gpt, "--steps", fmt::format("{}", options_.steps), "--metrics", metrics});
    command.insert(command.end(), options_.model.begin(), options_.model.end());
  }

  std::vector<std::string> disturbed(const std::string& metrics) const {
    std::vector<std::string> command = launcher();
    command.insert(command.end(), {"--min-ranks", fmt::format("{}", options_.least), "--restarts", "100000",
                                   "--backoff", options_.backoff});
    if (options_.spares > 0) command.insert(command.end(), {"--spares", fmt::format("{}", options_.spares)});
    add_training(command, metrics);
    if (options_.save_every > 0)
      command.insert(command.end(),
                     {"--save", metrics + ".saved", "--save-every", fmt::format("{}", options_.save_every)});
    return command;
  }

  /// The steps of an undisturbed run, as many at least. Fewer if it hangs.
  std::map<std::int64_t, Step> undisturbed(std::int64_t steps) {
    const std::string metrics = file("undisturbed");
    std::vector<std::string> command = launcher();
    add_training(command, metrics);
    std::filesystem::remove(metrics);
    const pid_t process = start(command, file("undisturbed.log"));
    int status = 0;
    bool ended = false, hangs = false;
    std::int64_t made = -1;
    auto progress = std::chrono::steady_clock::now();
    while (made < steps - 1 && !ended && !hangs) {
      ended = has_ended(process, status);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const auto now = std::chrono::steady_clock::now();
      if (const std::int64_t last = last_step_in(metrics); last > std::exchange(made, last)) progress = now;
      hangs = now - progress > kHang;
    }
    if (!ended && !end_launcher(process)) hangs = true;
    if (hangs) {
      fmt::print(stderr, "the undisturbed run hangs after {} of {} steps\n", made + 1, steps);
      ++counts_.hangs;
    }
    return steps_in(metrics);
  }

  /// Compares with the losses of an undisturbed run.
  void compare(const std::map<std::int64_t, Step>& disturbed) {
    if (disturbed.empty()) return;
    std::int64_t steps = disturbed.rbegin()->first + 1;
    // A killed rank 0 may have taken the line of its last step with it.
    if (std::ssize(disturbed) + counts_.kills < steps) {
      fmt::print(stderr, "{} steps of {} are in the metrics\n", disturbed.size(), steps);
      ++counts_.failures;
    }
    if (options_.compared > 0) steps = std::min(steps, options_.compared);
    const std::map<std::int64_t, Step> right = undisturbed(steps);
    for (const auto& [number, step] : disturbed) {
      if (number >= steps) break;
      const auto at = right.find(number);
      if (at == right.end()) {
        fmt::print(stderr, "the undisturbed run has no step {}\n", number);
        ++counts_.failures;
        return;
      }
      const double loss = at->second.lowest_loss;
      for (const double other : {step.lowest_loss, step.highest_loss})
        worst_ = std::max(worst_, std::abs(other - loss) / std::abs(loss));
      ++compared_;
    }
  }

  const Options& options_;
  const std::filesystem::path folder_;
  std::mt19937_64 random_;
  Counts counts_;
  std::int64_t compared_ = 0;
  double worst_ = 0;
};

}  // namespace
}  // namespace changes

int main(int argc, char** argv) {
  changes::Options options;
  CLI::App app("Disturbs a training whose ranks leave and come back.");
  app.add_option("--gpt", options.gpt)->required();
  app.add_option("--sinew-run", options.sinew_run)->required();
  app.add_option("--changes", options.changes, "How many are made");
  app.add_option("--kills", options.kills, "Changes go on until so many processes have been killed, too");
  app.add_option("--seed", options.seed);
  app.add_option("--ranks", options.ranks);
  app.add_option("--hosts", options.hosts, "HOST:RANKS,.. for sinew-run; hosts are network namespaces of this machine");
  app.add_option("--min-ranks", options.least);
  app.add_option("--spares", options.spares);
  app.add_option("--steps", options.steps);
  app.add_option("--most-off", options.most_off, "The largest difference of a loss that is allowed");
  app.add_option("--compared", options.compared,
                 "The steps whose losses are compared; in thousands of steps a difference of rounding grows; 0: all");
  app.add_option("--most-lost", options.most_lost, "The most steps that may be made again after a change; -1: any");
  app.add_option("--kinds", options.kinds, "The kinds of changes that are made")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(changes::kKindNames.begin(), changes::kKindNames.end())));
  app.add_flag("--apart", options.apart, "Each change waits until the job has all of its ranks again");
  app.add_option("--folder", options.folder, "For metrics and for what jobs print; default: one that is removed");
  app.add_option("--quiet-ms", options.quiet_ms, "The longest pause between two changes");
  app.add_option("--every-s", options.every_s, "Seconds from one change to the next; 0: as fast as the job takes them");
  app.add_option("--minutes", options.minutes, "The job is disturbed for so long, instead of --changes");
  app.add_option("--backoff", options.backoff, "As of sinew-run");
  app.add_option("--save-every", options.save_every, "Steps between the checkpoints of the job; 0: none");
  app.add_flag("--one-job", options.one_job, "All changes are made in one job");
  app.add_flag("--keep", options.keep, "Leave a job that hangs alone, to be looked at");
  app.add_option("model", options.model, "Options of gpt, behind --");
  CLI11_PARSE(app, argc, argv);
  const std::string_view kill_host = changes::kKindNames[static_cast<std::size_t>(changes::Kind::KillHost)];
  if (options.hosts.empty() && std::ranges::find(options.kinds, kill_host) != options.kinds.end()) {
    fmt::print(stderr, "--kinds '{}' without --hosts: this host alone runs the job; expected --hosts\n", kill_host);
    return 2;
  }
  options.gpt = std::filesystem::canonical(options.gpt);
  return changes::Changes(options).run();
}
