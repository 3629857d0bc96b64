#include "job_watch.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/collectives/control/verdict/verdict.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew::tools {
namespace {

/// A search walks through /proc and through the memory of all jobs. It may take a twentieth of the time.
constexpr auto kSearchPeriod = std::chrono::seconds(2);
constexpr int kPartOfTimeForSearch = 20;

bool has_died(const RankRecords& of) { return of.page && of.gone() && !has_left(of); }

RankState state_of(const RankRecords& of, bool is_in_call) {
  if (!of.page) return RankState::Unknown;
  if (has_left(of)) return RankState::Left;
  if (of.gone()) return RankState::Died;
  if (is_stopped(of.state)) return RankState::Stopped;
  return is_in_call ? RankState::InCall : RankState::Idle;
}

WatchedRank look_at_rank(const RankRecords& of, std::int64_t now) {
  WatchedRank rank{.rank = of.rank, .process = of.process};
  if (!of.page) return rank;
  const RecordReader reader(of.page.get());
  rank.counters = reader.counters();
  const auto latest = reader.latest();
  rank.state = state_of(of, latest && latest->completed == 0);
  if (!latest) return rank;
  const CallReport call = tell(reader, *latest, now);
  rank.call = describe_call(call);
  rank.communicator = call.on;
  rank.communicator_id = latest->id;
  rank.for_s = static_cast<double>(call.age_ms) / 1000;
  return rank;
}

/// A stuck call holds up all ranks that wait in it, or in a later call on its communicator.
void add_verdicts(const std::vector<StuckCall>& stuck, double late_after_s, std::vector<WatchedRank>& ranks) {
  for (const StuckCall& call : stuck) {
    for (WatchedRank& rank : ranks) {
      const bool is_later =
          rank.state == RankState::InCall && rank.communicator_id == call.communicator && rank.for_s >= late_after_s;
      const bool waits = is_later || std::ranges::find(call.waiting, rank.rank) != call.waiting.end();
      if (rank.rank == call.blamed) {
        rank.delays = name_of(call.cause);
      } else if (waits && !rank.waits_for) {
        rank.waits_for = call.blamed;
      }
    }
  }
}

}  // namespace

std::string_view name_of(RankState state) noexcept {
  switch (state) {
    case RankState::InCall: return "in call";
    case RankState::Idle: return "idle";
    case RankState::Stopped: return "stopped";
    case RankState::Left: return "left";
    case RankState::Died: return "died";
    case RankState::Unknown: return "unknown";
  }
  return "";
}

std::optional<double> rate_of(std::uint64_t before, std::uint64_t now, double seconds) noexcept {
  const std::uint64_t more = now - before;
  if (more > std::numeric_limits<std::uint64_t>::max() / 2 || seconds <= 0) return std::nullopt;
  return static_cast<double>(more) / seconds;
}

JobWatch::JobWatch(std::string folder, std::vector<pid_t> only, std::chrono::milliseconds late_after)
    : folder_(std::move(folder)), only_(std::move(only)), late_after_(late_after) {}

std::vector<JobRecords> JobWatch::find() const {
  if (folder_.empty()) return jobs_running(only_);
  std::vector<JobRecords> jobs = jobs_in_folder(folder_);
  jobs.resize(1);  // the newest generation
  return jobs;
}

void JobWatch::search() {
  const Time begin = std::chrono::steady_clock::now();
  std::vector<JobRecords> found;
  try {
    found = find();
  } catch (const Error&) {
    if (jobs_.empty() && search_at_ == Time{}) throw;  // later, the jobs that were there have ended
  }
  for (JobRecords& known : jobs_) {
    const auto again = std::ranges::find(found, known.name, &JobRecords::name);
    if (again == found.end()) {
      found.push_back(std::move(known));
      continue;
    }
    // Records of a rank that has ended are no longer found, but they are here.
    again->ranks.resize(std::max(again->ranks.size(), known.ranks.size()));
    for (std::size_t r = 0; r < known.ranks.size(); ++r) {
      if (!again->ranks[r].page) again->ranks[r] = std::move(known.ranks[r]);
    }
  }
  jobs_ = std::move(found);
  const Time end = std::chrono::steady_clock::now();
  search_at_ = end + std::max<std::chrono::steady_clock::duration>(kSearchPeriod, (end - begin) * kPartOfTimeForSearch);
}

std::vector<WatchedJob> JobWatch::look() {
  if (std::chrono::steady_clock::now() >= search_at_) search();
  const Time now = std::chrono::steady_clock::now();
  std::vector<WatchedJob> seen;
  for (JobRecords& job : jobs_) {
    for (RankRecords& of : job.ranks) of.state = of.page ? state_of_process(of.process) : '\0';
    seen.push_back(look_at(job, now));
    any_died_ = any_died_ || std::ranges::any_of(job.ranks, has_died);
  }
  std::erase_if(jobs_,
                [&](const JobRecords& job) { return std::ranges::find(seen, job.name, &WatchedJob::name)->is_over; });
  return seen;
}

WatchedJob JobWatch::look_at(const JobRecords& job, Time now) {
  const std::int64_t moment = coarse_now();
  WatchedJob seen{.name = job.name, .ranks = {}, .stuck = {}};
  seen.stuck = diagnose(job.ranks, moment, late_after_.count()).stuck;
  seen.is_over = std::ranges::all_of(job.ranks, [](const RankRecords& of) { return of.gone() || has_left(of); });
  for (const RankRecords& of : job.ranks) {
    seen.ranks.push_back(look_at_rank(of, moment));
    if (of.page) add_rates(seen.ranks.back(), job.name, now);
  }
  add_verdicts(seen.stuck, std::chrono::duration<double>(late_after_).count(), seen.ranks);
  return seen;
}

void JobWatch::add_rates(WatchedRank& rank, const std::string& job, Time now) {
  Counted total{.at = now};
  for (const CountersSeen& c : rank.counters) total.calls += c.calls, total.bytes += c.bytes;
  const auto [at, is_new] = counted_.try_emplace({job, rank.rank}, total);
  if (is_new) return;
  const Counted before = std::exchange(at->second, total);
  const double seconds = std::chrono::duration<double>(now - before.at).count();
  rank.calls_per_s = rate_of(before.calls, total.calls, seconds);
  rank.bytes_per_s = rate_of(before.bytes, total.bytes, seconds);
}

}  // namespace sinew::tools
