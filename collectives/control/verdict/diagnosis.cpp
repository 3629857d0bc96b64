#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/control/verdict/diagnosis.hpp>
#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/collectives/control/verdict/verdict.hpp>
#include <sinew/core/store/store_table.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {
namespace {

constexpr std::uint16_t kWorldId = 0;  // of the communicator that all ranks have
constexpr std::size_t kNobody = ~std::size_t{0};

/// f(call) of all that are in its ring.
template <class F>
void for_each_call(const RankRecords& of, const F& f) {
  if (!of.page) return;
  const RecordReader reader(of.page.get());
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    if (const auto seen = reader.at(i)) f(*seen);
  }
}

bool has_stopped(const RankRecords& of) noexcept { return is_stopped(of.state); }

bool is_closing(const CallSeen& call) noexcept { return call.fingerprint == kClosedFingerprint; }

/// Some call of its ended otherwise than well: it lived to see it.
bool has_failed(const RankRecords& of) {
  bool failed = false;
  for_each_call(of, [&](const CallSeen& c) {
    failed = failed || (c.completed != 0 && c.outcome != static_cast<std::uint32_t>(Code::Ok));
  });
  return failed;
}

class Judge {
 public:
  Judge(std::span<const RankRecords> records, std::int64_t now, std::int64_t least_ms)
      : records_(records), now_(now), least_ms_(least_ms) {
    for (std::size_t r = 0; r < records.size(); ++r) {
      left_.push_back(has_left(records[r]));
      died_.push_back(records[r].page && records[r].gone() && !left_[r] && !has_failed(records[r]));
      take_memberships(r);
    }
    add_callers();
    // Where all were ended at once nothing says who was first.
    ended_at_once_ = !died_.empty() && std::ranges::all_of(died_, [](bool died) { return died; });
    if (ended_at_once_) died_.assign(died_.size(), false);
  }

  Diagnosis run() {
    Diagnosis all;
    for (std::size_t r = 0; r < records_.size(); ++r) all.ranks.push_back(whereabouts(r));
    for (auto& [where, open] : open_calls()) {
      if (open.front().age_ms >= least_ms_) all.stuck.push_back(stuck(where.first, open));
    }
    std::ranges::stable_sort(all.stuck, std::greater{}, &StuckCall::waited_ms);
    return all;
  }

 private:
  /// A call that a rank waits in.
  struct Open {
    std::size_t rank;
    CallSeen call;
    std::int64_t age_ms;
  };
  using OpenCalls = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Open>>;

  /// Who is in a communicator, its members say.
  void take_memberships(std::size_t r) {
    if (!records_[r].page) return;
    const RecordReader reader(records_[r].page.get());
    for (std::size_t i = 0; i < RecordPage::kMemberships; ++i) {
      const auto membership = reader.membership(i);
      if (!membership || membership->ranks > kMostRanks) continue;  // so many ranks: these bytes are damaged
      if (!membership->name.empty()) names_[membership->communicator] = membership->name;
      std::vector<std::size_t>& members = members_[membership->communicator];
      members.resize(std::max(members.size(), static_cast<std::size_t>(membership->ranks)), kNobody);
      members[static_cast<std::size_t>(membership->place)] = r;
    }
  }

  /// Of a communicator of which nobody says so: those that called on it, or all of the World.
  void add_callers() {
    std::map<std::uint64_t, std::vector<std::size_t>> callers;
    std::set<std::uint64_t> worlds;
    for (std::size_t r = 0; r < records_.size(); ++r) {
      for_each_call(records_[r], [&](const CallSeen& c) {
        std::vector<std::size_t>& of = callers[c.communicator];
        if (of.empty() || of.back() != r) of.push_back(r);
        if (c.id == kWorldId) worlds.insert(c.communicator);
      });
    }
    for (const std::uint64_t id : worlds) {
      std::vector<std::size_t>& world = members_[id];
      world.resize(std::max(world.size(), records_.size()), kNobody);
      for (std::size_t i = 0; i < records_.size(); ++i) world[i] = i;
    }
    for (auto& [communicator, ranks] : callers) members_.try_emplace(communicator, std::move(ranks));
  }

  /// Builds the Group of a communicator from the memberships in the ranks' records. A member without records keeps its
  /// number in the communicator in place of its World rank.
  Group group_of(std::uint64_t communicator, std::uint16_t id, std::size_t rank) const {
    Group group{.communicator = id, .identity = communicator};
    if (id == kWorldId) group.name = "world";
    if (const auto name = names_.find(communicator); name != names_.end()) group.name = name->second;
    const auto members = members_.find(communicator);
    if (members == members_.end()) return group;
    for (std::size_t place = 0; place < members->second.size(); ++place) {
      const std::size_t member = members->second[place];
      group.world_ranks.push_back(member == kNobody ? static_cast<int>(place) : records_[member].rank);
      if (member == rank) group.rank = static_cast<int>(place);
    }
    return group;
  }

  std::string described(std::size_t r, const CallSeen& call) const {
    const Group group = group_of(call.communicator, call.id, r);
    return describe_call(tell(RecordReader(records_[r].page.get()), call, now_), &group);
  }

  std::int64_t age(std::int64_t since) const noexcept { return std::max<std::int64_t>(now_ - since, 0) / 1'000'000; }

  /// By communicator the ranks that wait in its first open collective, those that wait longest first; messages each
  /// alone.
  OpenCalls open_calls() const {
    OpenCalls all;
    for (std::size_t r = 0; r < records_.size(); ++r) {
      if (died_[r]) continue;
      for_each_call(records_[r], [&](const CallSeen& c) {
        const bool failed = c.completed != 0 && c.outcome != static_cast<std::uint32_t>(Code::Ok);
        const bool waits = c.completed == 0 && (!records_[r].gone() || ended_at_once_);
        if (is_closing(c) || !(waits || (failed && records_[r].gone()))) return;
        const std::uint64_t number = c.message() ? (std::uint64_t{1} << 63 | r << 40 | (c.serial & 0xff'ffff'ffff)) : 0;
        std::vector<Open>& open = all[{c.communicator, number}];
        if (!open.empty() && c.sequence < open.front().call.sequence) open.clear();
        if (open.empty() || c.sequence == open.front().call.sequence) open.push_back({r, c, age(c.entered)});
      });
    }
    for (auto& [where, open] : all) std::ranges::stable_sort(open, std::greater{}, &Open::age_ms);
    return all;
  }

  StuckCall stuck(std::uint64_t communicator, const std::vector<Open>& open) {
    const Open& first = open.front();
    const RankRecords& mine = records_[first.rank];
    const std::vector<std::size_t>& members = members_[communicator];
    const Question question = ask_about(mine.page.get(), mine.rank, communicator, first.call.sequence, {});
    std::vector<std::optional<RankReport>> reports;
    for (const std::size_t r : members) {
      if (r == kNobody || !records_[r].page || r == first.rank) {
        reports.emplace_back();
        continue;
      }
      reports.push_back(report_on(records_[r].page.get(), records_[r].rank, 0, left_[r], question, now_));
      reports.back()->state = records_[r].state;
    }
    const Waiting waiting{.call = tell(RecordReader(mine.page.get()), first.call, now_),
                          .waited_ms = first.age_ms,
                          .group = group_of(communicator, first.call.id, first.rank)};
    const Verdict verdict = judge(waiting, reports, [&](std::uint32_t sequence) {
      return report_call(mine.page.get(), communicator, sequence, now_);
    });

    StuckCall call{.communicator = first.call.id,
                   .sequence = first.call.sequence,
                   .call = described(first.rank, first.call),
                   .waiting = {},
                   .waited_ms = first.age_ms,
                   .text = verdict.text};
    for (const Open& o : open) call.waiting.push_back(records_[o.rank].rank);
    std::ranges::sort(call.waiting);
    const bool is_member = verdict.blamed >= 0 && verdict.blamed < std::ssize(members);
    const std::size_t blamed = is_member ? members[static_cast<std::size_t>(verdict.blamed)] : kNobody;
    const bool is_known = blamed != kNobody;
    call.blamed = is_known ? records_[blamed].rank : -1;
    call.cause = cause_of(verdict, blamed);
    if (verdict.finding != Finding::Mismatched) blame_the_dead(members, first.call, call);
    if (call.cause == Cause::OnItsWay) blame_the_stopped(open, call);
    return call;
  }

  /// All have come to it, and some of those that are in it are stopped.
  void blame_the_stopped(const std::vector<Open>& open, StuckCall& call) const {
    for (const Open& o : open) {
      if (!has_stopped(records_[o.rank])) continue;
      call.cause = Cause::Stopped;
      call.blamed = records_[o.rank].rank;
      call.text =
          fmt::format("rank {} (process {}) is stopped in it; {}", call.blamed, records_[o.rank].process, call.text);
      return;
    }
  }

  Cause cause_of(const Verdict& verdict, std::size_t blamed) const {
    switch (verdict.finding) {
      case Finding::OnItsWay: return Cause::OnItsWay;
      case Finding::Mismatched: return Cause::Mismatched;
      case Finding::Gone: return Cause::Left;
      case Finding::Late: break;
    }
    if (blamed >= records_.size() || !records_[blamed].page) return Cause::Unknown;
    if (has_stopped(records_[blamed])) return Cause::Stopped;
    const auto last = RecordReader(records_[blamed].page.get()).latest();
    return last && last->completed == 0 ? Cause::Elsewhere : Cause::NotCalled;
  }

  /// Whatever else is late: a rank that is gone will never come.
  void blame_the_dead(const std::vector<std::size_t>& members, const CallSeen& waits, StuckCall& call) const {
    for (const std::size_t r : members) {
      const bool counts = r != kNobody && (!waits.message() || waits.peer == records_[r].rank);
      if (!counts || !died_[r]) continue;
      call.cause = Cause::Dead;
      call.blamed = records_[r].rank;
      call.text = fmt::format("rank {} (process {}) is dead: it was {}; {}", records_[r].rank, records_[r].process,
                              whereabouts(r).text, call.text);
      return;
    }
  }

  RankWhereabouts whereabouts(std::size_t r) const {
    const RankRecords& of = records_[r];
    RankWhereabouts at{.rank = of.rank,
                       .process = of.process,
                       .gone = of.gone(),
                       .left = left_[r],
                       .stopped = has_stopped(of),
                       .text = "of unknown whereabouts: no records"};
    if (!of.page) return at;
    const RecordReader reader(of.page.get());
    const auto last = reader.latest();
    if (!last) {
      at.text = "in no call yet";
      return at;
    }
    const CallReport call = tell(reader, *last, now_);
    const double seconds = static_cast<double>(call.age_ms) / 1000;
    if (at.left) {
      at.text = "through with its World";
    } else if (call.completed) {
      at.text = fmt::format("in no call for {:.1f} s, since {} on {}", seconds, described(r, *last), call.on);
    } else {
      at.text = fmt::format("in {}, call {} on {}, for {:.1f} s", described(r, *last), call.sequence, call.on, seconds);
    }
    return at;
  }

  std::span<const RankRecords> records_;
  std::int64_t now_, least_ms_;
  std::vector<bool> left_, died_;
  bool ended_at_once_ = false;
  std::map<std::uint64_t, std::vector<std::size_t>> members_;  // by communicator: its ranks, in its order
  std::map<std::uint64_t, std::string> names_;                 // key: Group::identity
};

}  // namespace

std::string_view name_of(Cause cause) noexcept {
  switch (cause) {
    case Cause::Dead: return "dead";
    case Cause::Left: return "left";
    case Cause::Mismatched: return "mismatched";
    case Cause::Stopped: return "stopped";
    case Cause::Elsewhere: return "in another call";
    case Cause::NotCalled: return "not called";
    case Cause::Unknown: return "unknown";
    case Cause::OnItsWay: return "on its way";
  }
  return "";
}

bool has_left(const RankRecords& of) {
  bool left = false;
  for_each_call(of, [&](const CallSeen& c) { left = left || (is_closing(c) && c.id == kWorldId); });
  return left;
}

Diagnosis diagnose(std::span<const RankRecords> records, std::int64_t now, std::int64_t least_ms) {
  return Judge(records, now, least_ms).run();
}

std::int64_t last_moment(std::span<const RankRecords> records) noexcept {
  std::int64_t last = 0;
  for (const RankRecords& of : records)
    for_each_call(of, [&](const CallSeen& c) { last = std::max({last, c.entered, c.completed}); });
  return last;
}

}  // namespace sinew
