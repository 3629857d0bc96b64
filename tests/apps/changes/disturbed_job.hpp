#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "job_log.hpp"
#include "metrics_file.hpp"
#include "options.hpp"
#include "processes.hpp"

namespace changes {

/// The kinds of changes that are made to a job.
enum class Kind : std::uint8_t {
  KillOne,
  KillTwo,
  KillHost,     ///< all processes of a host at once; on the launcher's host all but the launcher
  KillJoining,  ///< kills a process, and then another one while the first one comes back
};
inline constexpr std::array<std::string_view, 4> kKindNames{"kill one", "kill two", "kill a host",
                                                            "kill during a join"};

/// Sums over all jobs of a run.
struct Counts {
  int changes = 0, kills = 0, jobs = 0, hangs = 0, failures = 0;
  std::array<int, kKindNames.size()> kinds{};
  int joins = 0, replacements = 0, shrinks = 0;          ///< as the ranks reported them
  int unreported = 0;                                    ///< killed processes that sinew-run did not report
  int misnamed = 0;                                      ///< living processes that ranks took for dead
  int nameless = 0;                                      ///< errors of ranks that name no rank
  std::int64_t most_lost = 0;                            ///< steps that were made again after a change
  double longest_pause_s = 0;                            ///< from one step to the next
  double longest_join_s = 0, longest_replacement_s = 0;  ///< the same, of one kind, without the transfer of state
  double productive_s = 0, wall_s = 0;
};

/// A job that is disturbed until all changes are made, its time is over, or it ends.
class DisturbedJob {
 public:
  DisturbedJob(const Options& options, Counts& counts, std::mt19937_64& random, std::vector<std::string> command,
               std::string metrics, const std::string& log);
  DisturbedJob(const DisturbedJob&) = delete;
  DisturbedJob& operator=(const DisturbedJob&) = delete;

  /// Returns the steps of the job, with the losses of steps that were made again, too. It is called once.
  std::map<std::int64_t, Step> run();

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  enum class State : std::uint8_t { Runs, Ended, Hangs };

  bool is_enough() const;
  /// Looks for steps and reports until this time. Stops if the job ends, or after a minute without a step.
  void watch(Time until);
  /// The same until there is a step after those that have been seen.
  void await_step();
  /// The same until the job has gone on with all of its ranks. A spare that was killed changes no ranks, so it waits
  /// for a while only.
  void await_all_ranks();
  void look();
  void add(std::int64_t number, const Step& step);
  void take(const std::vector<Resumption>& resumptions);
  void note_pause(const Resumption& resumption, double pause_s);
  void change();
  Kind choose_kind();
  void kill_some(std::size_t how_many);
  void kill_host();
  void kill_joining();
  void kill(const Member& member);
  std::vector<Member> programs() const;
  /// The newest process that is not one of these; waits for one.
  std::vector<Member> await_new(const std::vector<Member>& old);
  void check_names();
  void finish();

  const Options& options_;
  Counts& counts_;
  std::mt19937_64& random_;
  const std::string metrics_;
  JobLog log_;
  const pid_t launcher_;
  State state_ = State::Runs;
  int status_ = 0;
  int resumed_ = 0;  // times, since the last change began
  std::map<std::int64_t, Step> steps_;
  std::int64_t steps_made_ = 0;  // steps that have been seen, those that were made again, too
  std::int64_t in_metrics_ = -1, last_step_ = -1;
  Time begin_ = Clock::now(), progress_ = begin_, first_progress_ = begin_;
  double recent_gap_s_ = 0;              // the last one, while it may still belong to a report that comes late
  std::vector<Resumption> resumptions_;  // since the last step
  std::set<pid_t> killed_;
};

}  // namespace changes
