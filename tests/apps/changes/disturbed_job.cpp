#include "disturbed_job.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace changes {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLook{3};
/// A process that was killed has come back after this time, or it does not come back.
constexpr seconds kReturn{30};
/// A report of ranks may reach the log so much later than the step after it reaches the metrics.
constexpr seconds kLateReport{1};

double seconds_between(std::chrono::steady_clock::time_point first, std::chrono::steady_clock::time_point last) {
  return duration<double>(last - first).count();
}

}  // namespace

DisturbedJob::DisturbedJob(const Options& options, Counts& counts, std::mt19937_64& random,
                           std::vector<std::string> command, std::string metrics, const std::string& log)
    : options_(options),
      counts_(counts),
      random_(random),
      metrics_(std::move(metrics)),
      log_(log, options.ranks),
      launcher_(start(command, log)) {
  ++counts_.jobs;
}

bool DisturbedJob::is_enough() const {
  const bool is_made = counts_.changes >= options_.changes && counts_.kills >= options_.kills;
  return options_.minutes > 0 ? seconds_between(begin_, Clock::now()) >= 60 * options_.minutes : is_made;
}

std::map<std::int64_t, Step> DisturbedJob::run() {
  await_step();
  begin_ = first_progress_ = progress_;
  Time next = begin_;
  while (state_ == State::Runs && !is_enough()) {
    if (options_.every_s > 0) {
      next += std::chrono::duration_cast<Clock::duration>(duration<double>(options_.every_s));
      watch(next);
      if (state_ == State::Runs && !is_enough()) change();
      continue;
    }
    change();
    if (!options_.apart && random_() % 4 == 0) {  // the next change comes before the job has recovered from this one
      watch(Clock::now() + milliseconds(random_() % 30));
    } else {
      if (options_.apart) await_all_ranks();
      await_step();
      watch(Clock::now() + milliseconds(random_() % static_cast<unsigned>(options_.quiet_ms)));
    }
  }
  for (int i = 0; i < 4; ++i) await_step();
  check_names();
  const Time end = progress_;
  finish();
  for (const auto& [number, step] : steps_in(metrics_)) add(number, step);
  counts_.wall_s += seconds_between(first_progress_, end);
  for (const auto& [number, step] : steps_) counts_.productive_s += step.seconds;
  return std::move(steps_);
}

void DisturbedJob::watch(Time until) {
  while (state_ == State::Runs && Clock::now() < until) {
    look();
    std::this_thread::sleep_for(kLook);
  }
}

void DisturbedJob::await_step() {
  const std::int64_t before = steps_made_;
  while (state_ == State::Runs && steps_made_ == before) {
    look();
    std::this_thread::sleep_for(kLook);
  }
}

void DisturbedJob::await_all_ranks() {
  const Time until = Clock::now() + kReturn;
  while (state_ == State::Runs && Clock::now() < until && (resumed_ == 0 || log_.ranks() < options_.ranks)) {
    look();
    std::this_thread::sleep_for(kLook);
  }
}

void DisturbedJob::look() {
  take(log_.read());
  const std::map<std::int64_t, Step> steps = last_steps_in(metrics_);
  for (const auto& [number, step] : steps) add(number, step);
  const std::int64_t now = steps.empty() ? -1 : steps.rbegin()->first;
  const Time time = Clock::now();
  // Ranks that go on with an earlier step remove the lines of the steps that they make again.
  if (now > std::exchange(in_metrics_, now)) {
    const double gap = seconds_between(progress_, time);
    last_step_ = now;
    if (steps_made_++ > 0) {
      counts_.longest_pause_s = std::max(counts_.longest_pause_s, gap);
      for (const Resumption& r : std::exchange(resumptions_, {})) note_pause(r, std::max(gap, recent_gap_s_));
      recent_gap_s_ = gap;
    }
    progress_ = time;
  }
  if (has_ended(launcher_, status_)) {
    state_ = State::Ended;
  } else if (time - progress_ > kHang) {
    state_ = State::Hangs;
  }
}

void DisturbedJob::add(std::int64_t number, const Step& step) {
  const auto [at, is_new] = steps_.try_emplace(number, step);
  if (is_new) return;
  at->second.lowest_loss = std::min(at->second.lowest_loss, step.lowest_loss);
  at->second.highest_loss = std::max(at->second.highest_loss, step.highest_loss);
  at->second.seconds = step.seconds;
}

void DisturbedJob::take(const std::vector<Resumption>& resumptions) {
  if (Clock::now() - progress_ > kLateReport) recent_gap_s_ = 0;
  for (const Resumption& r : resumptions) {
    switch (r.effect) {
      case Resumption::Effect::Fewer: ++counts_.shrinks; break;
      case Resumption::Effect::Joined: ++counts_.joins; break;
      case Resumption::Effect::Replaced: ++counts_.replacements; break;
    }
    counts_.most_lost = std::max(counts_.most_lost, last_step_ + 1 - r.step);
    resumptions_.push_back(r);
    ++resumed_;
  }
}

void DisturbedJob::note_pause(const Resumption& resumption, double pause_s) {
  const double without_transfer = std::max(pause_s - resumption.transfer_s, 0.0);
  if (resumption.effect == Resumption::Effect::Joined)
    counts_.longest_join_s = std::max(counts_.longest_join_s, without_transfer);
  if (resumption.effect == Resumption::Effect::Replaced)
    counts_.longest_replacement_s = std::max(counts_.longest_replacement_s, without_transfer);
}

Kind DisturbedJob::choose_kind() {
  const auto is_made = [this](Kind kind) {
    if (kind == Kind::KillHost && options_.hosts.empty()) return false;
    const std::string_view name = kKindNames[static_cast<std::size_t>(kind)];
    return options_.kinds.empty() || std::ranges::find(options_.kinds, name) != options_.kinds.end();
  };
  constexpr std::array kOften{Kind::KillOne, Kind::KillOne, Kind::KillOne,     Kind::KillOne,
                              Kind::KillTwo, Kind::KillTwo, Kind::KillJoining, Kind::KillHost};
  std::vector<Kind> made;
  std::ranges::copy_if(kOften, std::back_inserter(made), is_made);
  return made[random_() % made.size()];  // options without such a kind were refused
}

void DisturbedJob::change() {
  const Kind kind = choose_kind();
  resumed_ = 0;
  ++counts_.changes;
  ++counts_.kinds[static_cast<std::size_t>(kind)];
  switch (kind) {
    case Kind::KillOne: return kill_some(1);
    case Kind::KillTwo: return kill_some(2);
    case Kind::KillHost: return kill_host();
    case Kind::KillJoining: return kill_joining();
  }
}

std::vector<Member> DisturbedJob::programs() const {
  std::vector<Member> members = members_of(launcher_, options_.gpt);
  std::erase_if(members, [this](const Member& m) { return !m.is_program || killed_.contains(m.pid); });
  return members;
}

void DisturbedJob::kill(const Member& member) {
  if (::kill(member.pid, SIGKILL) != 0 || !member.is_program) return;
  killed_.insert(member.pid);
  ++counts_.kills;
}

void DisturbedJob::kill_some(std::size_t how_many) {
  std::vector<Member> alive = programs();
  std::ranges::shuffle(alive, random_);
  alive.resize(std::min(how_many, alive.size()));
  for (const Member& member : alive) kill(member);
}

void DisturbedJob::kill_host() {
  std::vector<Member> members = members_of(launcher_, options_.gpt);
  std::erase_if(members, [this](const Member& m) { return killed_.contains(m.pid); });
  std::set<std::uint64_t> hosts;
  for (const Member& m : members) {
    if (m.is_program) hosts.insert(m.host);
  }
  if (hosts.empty()) return;
  const std::uint64_t host = *std::next(hosts.begin(), static_cast<std::ptrdiff_t>(random_() % hosts.size()));
  // On the launcher's host there are also the remote shells of the agents of other hosts.
  const bool is_here = host == own_host();
  for (const Member& m : members) {
    if (m.host == host && (m.is_program || !is_here)) kill(m);
  }
}

std::vector<Member> DisturbedJob::await_new(const std::vector<Member>& old) {
  const Time until = Clock::now() + kReturn;
  while (state_ == State::Runs && Clock::now() < until) {
    std::vector<Member> fresh = programs();
    std::erase_if(fresh, [&](const Member& m) { return std::ranges::find(old, m.pid, &Member::pid) != old.end(); });
    if (!fresh.empty()) return fresh;
    look();
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

void DisturbedJob::kill_joining() {
  const std::vector<Member> before = programs();
  kill_some(1);
  const std::vector<Member> fresh = await_new(before);
  if (fresh.empty()) return;
  watch(Clock::now() + milliseconds(random_() % 300));
  if (random_() % 2 == 0) {
    kill(fresh.front());
  } else {
    kill_some(1);
  }
}

/// The launcher has reported each killed process, and errors of ranks name the dead.
void DisturbedJob::check_names() {
  const auto expected = static_cast<int>(killed_.size());
  const Time until = Clock::now() + kReturn;
  while (state_ == State::Runs && log_.reported() < expected && Clock::now() < until) {
    look();
    std::this_thread::sleep_for(kLook);
  }
  take(log_.read());
  if (log_.reported() < expected) {
    fmt::print(stderr, "{} processes were killed, sinew-run reported {}\n", expected, log_.reported());
    counts_.unreported += expected - log_.reported();
  }
  for (const pid_t named : log_.named()) {
    if (killed_.contains(named)) continue;
    fmt::print(stderr, "an error of a rank calls process {} dead, which was not killed\n", named);
    ++counts_.misnamed;
  }
  for (const std::string& line : log_.nameless()) {
    fmt::print(stderr, "an error of a rank names no rank: {}\n", line);
    ++counts_.nameless;
  }
}

void DisturbedJob::finish() {
  if (state_ == State::Hangs) {
    ++counts_.hangs;
    if (options_.keep) {
      fmt::print(stderr, "sinew-run is process {}\n", launcher_);
      std::this_thread::sleep_for(std::chrono::minutes(30));
    }
    fmt::print(stderr, "no step for a minute; the end of what the job printed:\n{}\n", log_.end());
  }
  if (state_ != State::Ended) {  // its further steps show nothing new
    if (!end_launcher(launcher_)) {
      ++counts_.hangs;
      fmt::print(stderr, "sinew-run did not end within a minute after SIGTERM; the end of what it printed:\n{}\n",
                 log_.end());
    }
  } else if (!WIFEXITED(status_) || WEXITSTATUS(status_) != 0) {
    ++counts_.failures;
    fmt::print(stderr, "the job failed; the end of what it printed:\n{}\n", log_.end());
  }
}

}  // namespace changes
