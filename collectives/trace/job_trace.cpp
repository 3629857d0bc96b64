#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/trace/call_tally.hpp>
#include <sinew/collectives/trace/job_trace.hpp>

namespace sinew {
namespace {

/// Calls of one key on one communicator.
struct Row {
  CallStats stats;
  CallTally tally;
  double total_s = 0;  ///< of all ranks
};

/// A collective that not all of its ranks have come to.
struct Open {
  CollectiveTiming timing;
  CallKey key;
  Fingerprint fingerprint = 0;
  std::string site;
  int came = 0;
  int expected = 0;  ///< ranks that come, as far as is known
  bool failed = false;
  double total_s = 0;
  std::vector<int> waiting;  ///< in the communicator
  const LoggedPlan* plan = nullptr;
};

struct Group {
  LoggedCommunicator about;
  int logs = 0;                       ///< of its ranks
  std::vector<bool> logged;           ///< by rank
  std::vector<std::int64_t> reached;  ///< sequence, by rank
  std::map<std::uint32_t, Open> open;
  std::map<CallKey, Row> rows;

  int ranks() const { return static_cast<int>(about.world_ranks.size()); }
};

std::string call_text(Fingerprint fingerprint, const std::string& site) {
  return site.empty() ? describe_fingerprint(fingerprint)
                      : fmt::format("{} at {}", describe_fingerprint(fingerprint), site);
}

/// One pass over all logs, in the order of time.
class Merge {
 public:
  explicit Merge(const JobLogs& job) : job_(job) {
    for (const RankLog& log : job.logs) {
      auto& known = groups_of_.emplace_back();
      for (const auto& [number, communicator] : log.communicators()) {
        Group& group = groups_[communicator.identity];
        if (group.about.world_ranks.empty()) begin(group, communicator);
        if (group.about.world_ranks != communicator.world_ranks) continue;  // damaged
        const auto rank = static_cast<std::size_t>(communicator.rank);
        if (group.logged[rank]) continue;
        group.logged[rank] = true;
        ++group.logs;

        known[number] = &group;
      }
      cursors_.push_back(log.calls());
      calls_.emplace_back();
      advance(calls_.size() - 1);
    }
  }

  JobTrace run() {
    while (!next_.empty()) {
      const std::size_t log = next_.top().second;
      next_.pop();
      take(log, *calls_[log]);
      advance(log);
    }
    for (auto& [identity, group] : groups_) {
      while (!group.open.empty()) finish(group, group.open.begin());
      tell(group);
    }
    std::ranges::sort(trace_.communicators, {}, [](const CommunicatorTrace& c) { return std::pair(c.id, c.identity); });
    return std::move(trace_);
  }

 private:
  using OpenCalls = std::map<std::uint32_t, Open>;

  static void begin(Group& group, const LoggedCommunicator& communicator) {
    group.about = communicator;
    group.logged.resize(communicator.world_ranks.size());
    group.reached.resize(communicator.world_ranks.size(), -1);
  }

  void advance(std::size_t log) {
    calls_[log] = cursors_[log].next();
    if (calls_[log]) return next_.emplace(calls_[log]->entered, log);
    for (const auto& [number, group] : groups_of_[log]) {
      const int rank = job_.logs[log].communicator(number)->rank;
      leave_out(*group, rank, group->open.end());
    }
  }

  /// A rank comes to none of the calls up to `end` any more that it has not reached.
  void leave_out(Group& group, int rank, OpenCalls::iterator end) {
    const std::int64_t reached = group.reached[static_cast<std::size_t>(rank)];
    auto at = reached < 0 ? group.open.begin() : group.open.upper_bound(static_cast<std::uint32_t>(reached));
    while (at != end) {
      const auto call = at++;
      --call->second.expected;
      if (call->second.came >= call->second.expected) finish(group, call);
    }
  }

  void take(std::size_t log, const LoggedCall& call) {
    const auto known = groups_of_[log].find(call.communicator);
    if (known == groups_of_[log].end()) return;
    ++trace_.calls;
    Group& group = *known->second;
    const int rank = job_.logs[log].communicator(call.communicator)->rank;
    if (is_message(call.collective())) return take_message(group, job_.logs[log], rank, call);
    std::int64_t& reached = group.reached[static_cast<std::size_t>(rank)];
    if (call.sequence <= reached) return;  // damaged
    leave_out(group, rank, group.open.lower_bound(call.sequence));
    reached = call.sequence;
    const auto [at, fresh] = group.open.try_emplace(call.sequence);
    Open& open = at->second;
    if (fresh) {
      open.key = key_of(call.fingerprint, call.extent, group.ranks());
      open.fingerprint = call.fingerprint;
      open.site = job_.logs[log].site(call.site);
      for (std::size_t r = 0; r < group.logged.size(); ++r) open.expected += is_coming(group, r, call.sequence) ? 1 : 0;
      ++open.expected;  // this one
    }
    come(open, job_.logs[log], rank, call);
    if (open.came >= open.expected) finish(group, at);
  }

  bool is_coming(const Group& group, std::size_t rank, std::uint32_t sequence) const {
    return group.logged[rank] && group.reached[rank] < sequence && has_more(group.about.world_ranks[rank]);
  }
  bool has_more(int world_rank) const {
    const auto log =
        std::ranges::lower_bound(job_.logs, world_rank, {}, [](const RankLog& l) { return l.about().rank; });
    return calls_[static_cast<std::size_t>(log - job_.logs.begin())].has_value();
  }

  static void come(Open& open, const RankLog& log, int rank, const LoggedCall& call) {
    ++open.came;
    open.failed = open.failed || call.failed();
    if (const LoggedPlan* plan = log.plan(call.plan); plan != nullptr) {
      open.plan = plan;
      open.key.bytes = plan->bytes;
    }
    if (!call.completed) return open.waiting.push_back(rank);
    open.timing.add({rank, call.entered, *call.completed});
    open.total_s += static_cast<double>(*call.completed - call.entered) * 1e-9;
  }

  void take_message(Group& group, const RankLog& log, int rank, const LoggedCall& call) {
    Row& row = row_of(group, key_of(call.fingerprint, call.extent, group.ranks()));
    if (!call.completed) {
      const auto peer = static_cast<std::size_t>(call.peer);
      std::string text = call_text(call.fingerprint, log.site(call.site));
      if (call.peer >= 0) text += fmt::format(", with rank {}", group.about.world_ranks[peer]);
      return name({group.about.id, call.sequence, text, {group.about.world_ranks[static_cast<std::size_t>(rank)]}, {}});
    }
    ++row.stats.calls;
    row.total_s += static_cast<double>(*call.completed - call.entered) * 1e-9;
    if (call.failed()) {
      ++row.stats.failed;
    } else {
      row.tally.add_alone(*call.completed - call.entered);
    }
  }

  void finish(Group& group, OpenCalls::iterator at) {
    Open& open = at->second;
    if (open.waiting.empty()) {
      Row& row = row_of(group, open.key);
      ++row.stats.calls;
      row.total_s += open.total_s;
      if (open.failed) ++row.stats.failed;
      std::optional<Seconds> predicted;
      if (open.plan != nullptr) {
        row.stats.algorithm = open.plan->algorithm;
        row.stats.transport = open.plan->transport;
        if (open.plan->predicted > 0) predicted = open.plan->predicted;
      }
      if (!open.failed && open.came == group.logs) row.tally.add(open.timing, predicted);
    } else {
      UnfinishedCall call{group.about.id, at->first, call_text(open.fingerprint, open.site), {}, {}};
      for (const int r : open.waiting) call.waiting.push_back(group.about.world_ranks[static_cast<std::size_t>(r)]);
      std::ranges::sort(call.waiting);
      for (std::size_t r = 0; r < group.logged.size(); ++r) {
        if (group.logged[r] && group.reached[r] < at->first) call.absent.push_back(group.about.world_ranks[r]);
      }
      name(std::move(call));
    }
    group.open.erase(at);
  }

  Row& row_of(Group& group, const CallKey& key) {
    Row& row = group.rows[key];
    row.stats.collective = key.collective;
    row.stats.dtype = key.dtype;
    row.stats.bytes = key.bytes;
    return row;
  }

  void name(UnfinishedCall call) {
    ++trace_.unfinished_calls;
    if (trace_.unfinished.size() < JobTrace::kMostNamed) trace_.unfinished.push_back(std::move(call));
  }

  void tell(Group& group) {
    CommunicatorTrace& to = trace_.communicators.emplace_back();
    to.identity = group.about.identity;
    to.id = group.about.id;
    to.world_ranks = group.about.world_ranks;
    for (auto& [key, row] : group.rows) {
      if (row.stats.calls == 0) continue;
      row.tally.fill(row.stats, group.ranks());
      row.stats.total = row.total_s / std::max(group.logs, 1);
      if (row.stats.last_rank >= 0)
        row.stats.last_rank = group.about.world_ranks[static_cast<std::size_t>(row.stats.last_rank)];
      to.calls.push_back(row.stats);
    }
  }

  const JobLogs& job_;
  std::map<std::uint64_t, Group> groups_;                   // by identity
  std::vector<std::map<std::uint32_t, Group*>> groups_of_;  // by log and number
  std::vector<RankLog::Cursor> cursors_;                    // by log
  std::vector<std::optional<LoggedCall>> calls_;            // the next of each
  std::priority_queue<std::pair<std::int64_t, std::size_t>, std::vector<std::pair<std::int64_t, std::size_t>>,
                      std::greater<>>
      next_;
  JobTrace trace_;
};

}  // namespace

JobTrace trace_of(const JobLogs& job) {
  JobTrace trace = Merge(job).run();
  for (const RankLog& log : job.logs) {
    const std::int64_t error = log.about().clock_error;
    if (trace.clock_error >= 0) trace.clock_error = error < 0 ? -1 : std::max(trace.clock_error, error);
  }
  return trace;
}

}  // namespace sinew
