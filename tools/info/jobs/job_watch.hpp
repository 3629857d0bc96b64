#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinew/tools/info/jobs/record_sources.hpp>

namespace sinew::tools {

/// The state of a rank at one moment.
enum class RankState : std::uint8_t { InCall, Idle, Stopped, Left, Died, Unknown };

/// "in call", "idle", "stopped", "left", "died", "unknown".
std::string_view name_of(RankState state) noexcept;

/// One rank of a watched job at one moment.
struct WatchedRank {
  int rank = -1;
  pid_t process = 0;
  RankState state = RankState::Unknown;
  std::string call{};          ///< the rank's latest call and its source line; empty: none yet
  std::string communicator{};  ///< that call's
  std::uint16_t communicator_id = 0;
  double for_s = 0;                     ///< seconds since that call began, or ended if the rank is idle
  std::optional<double> calls_per_s{};  ///< since the look before; nullopt: there is none
  std::optional<double> bytes_per_s{};  ///< likewise; bytes as CallStats counts them
  std::string delays{};                 ///< why others wait for this rank: "not called"; empty: none does
  std::optional<int> waits_for{};       ///< the rank that is to blame for the wait of this one; -1: nobody is
  std::vector<CountersSeen> counters{};
};

struct WatchedJob {
  std::string name;
  std::vector<WatchedRank> ranks;  ///< ascending
  std::vector<StuckCall> stuck;    ///< those that have waited for JobWatch's time, the longest first
  bool is_over = false;            ///< no rank is left
};

/// Looks at jobs again and again: at running jobs of this host, or at those that keep records in a folder.
/// Cost: a look reads the records of each rank, about 100 KiB. New jobs and ranks are found every other second or so.
class JobWatch {
 public:
  /// `folder`: empty: jobs_running(`only`). `late_after`: what has waited so long counts as stuck.
  JobWatch(std::string folder, std::vector<pid_t> only, std::chrono::milliseconds late_after);

  /// The state of all jobs. A job that is over appears in one look only.
  /// Errors: those of jobs_in_folder() and jobs_running() for the first look. Later looks return an empty list once all
  ///         jobs are over.
  std::vector<WatchedJob> look();
  /// True once a rank has ended without leaving its World.
  bool any_died() const noexcept { return any_died_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Counted {
    Time at{};
    std::uint64_t calls = 0, bytes = 0;
  };

  std::vector<JobRecords> find() const;
  /// Finds new jobs and ranks, and keeps the ranks that are known.
  void search();
  WatchedJob look_at(const JobRecords& job, Time now);
  void add_rates(WatchedRank& rank, const std::string& job, Time now);

  const std::string folder_;
  const std::vector<pid_t> only_;
  const std::chrono::milliseconds late_after_;
  std::vector<JobRecords> jobs_;
  Time search_at_{};
  bool any_died_ = false;
  std::map<std::pair<std::string, int>, Counted> counted_;  // by job and rank
};

/// The rate of a counter that goes round at 2^64. nullopt if the counter has begun anew.
std::optional<double> rate_of(std::uint64_t before, std::uint64_t now, double seconds) noexcept;

}  // namespace sinew::tools
