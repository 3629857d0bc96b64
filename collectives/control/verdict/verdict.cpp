#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/control/verdict/verdict.hpp>
#include <sinew/core/system/process_state.hpp>

namespace sinew {
namespace {

constexpr std::size_t kMostLateShown = 8;

std::string duration(std::int64_t ms) {
  return ms < 1000 ? fmt::format("{} ms", ms) : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000.0);
}

bool is_message(const CallReport& call) noexcept {
  return call.fingerprint != kClosedFingerprint && is_message(static_cast<Collective>(call.fingerprint & 31));
}

bool stopped(const RankReport& report) noexcept { return is_stopped(report.state); }

std::string described(const Waiting& waiting, const CallReport& call) {
  return describe_call(call, call.communicator == waiting.call.communicator ? &waiting.group : nullptr);
}

/// Where a rank is that has not come.
std::string whereabouts(const Waiting& waiting, const RankReport& report) {
  std::string text;
  const auto& last = report.latest_anywhere;
  if (!last) {
    text = "has made no call yet";
  } else if (last->fingerprint == kClosedFingerprint) {
    text = fmt::format("destroyed {} {} ago", last->on, duration(last->age_ms));
  } else if (last->completed && !report.open_peers.empty()) {
    text = fmt::format("has open messages with {} {}; its latest call, {} on {}, ended {} ago",
                       report.open_peers.size() == 1 ? "rank" : "ranks", fmt::join(report.open_peers, ", "),
                       described(waiting, *last), last->on, duration(last->age_ms));
  } else if (last->completed) {
    text = fmt::format("has been in no call for {}, since {} on {}", duration(last->age_ms), described(waiting, *last),
                       last->on);
    if (is_captured(last->fingerprint)) text += "; replays of its graph are seen by nobody";
  } else {
    text = fmt::format("has been in {} on {} for {}", described(waiting, *last), last->on, duration(last->age_ms));
  }
  return stopped(report) ? text + "; its process is stopped" : text;
}

bool closed(const std::optional<CallReport>& call) noexcept { return call && call->fingerprint == kClosedFingerprint; }

/// It destroyed the communicator because something had ended, which is no mistake of the program's.
bool gave_up(const std::optional<CallReport>& call) noexcept { return closed(call) && call->outcome != Code::Ok; }

/// A difference other than that a rank has left, or met an end, and so closed everything it had.
bool differs(const std::optional<RankReport>& report) noexcept {
  return report && report->differing && !(report->left && closed(report->differing)) && !gave_up(report->differing);
}

/// The calls that differ, by who made them: "rank 0: ...; ranks 1, 2: ...".
Verdict mismatch(const Waiting& waiting, std::span<const std::optional<RankReport>> reports, const OwnCall& own) {
  std::uint32_t first = ~0U;
  for (const auto& r : reports) {
    if (differs(r)) first = std::min(first, r->differing->sequence);
  }
  struct Side {
    std::vector<int> ranks;  // numbers in the communicator, in the order of World ranks
    CallReport call;
  };
  const auto world_rank = [&](int rank) { return waiting.group.world_rank(rank); };
  std::map<Fingerprint, Side> sides;
  const auto add = [&](int rank, const CallReport& call) {
    Side& side = sides[call.fingerprint];
    if (side.ranks.empty() || world_rank(rank) < world_rank(side.ranks.front())) side.call = call;
    side.ranks.push_back(rank);
    std::ranges::sort(side.ranks, {}, world_rank);
  };
  if (const auto mine = own(first)) add(waiting.group.rank, *mine);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto& r = reports[i];
    if (static_cast<int>(i) == waiting.group.rank || !r) continue;
    if (differs(r) && r->differing->sequence == first) {
      add(static_cast<int>(i), *r->differing);
    } else if (r->call && r->call->sequence == first) {
      add(static_cast<int>(i), *r->call);
    }
  }
  std::vector<Side> ordered;
  for (auto& [fingerprint, side] : sides) ordered.push_back(std::move(side));
  std::ranges::sort(ordered, {}, [&](const Side& s) { return world_rank(s.ranks.front()); });
  std::string text;
  for (const Side& s : ordered) {
    text += fmt::format("{} {}: {}", text.empty() ? "" : ";", waiting.group.ranks_text(s.ranks),
                        described(waiting, s.call));
  }
  const int blamed = ordered.size() > 1 ? ordered[1].ranks.front() : -1;
  return {Finding::Mismatched,
          fmt::format("call {} on {} is not the same on all ranks:{}", first, waiting.group.text(), text), blamed};
}

/// A difference so long ago that no ring remembers it, known by the hash of all calls, unless the own ring has
/// forgotten that, too.
std::optional<Verdict> differed_before(const Waiting& waiting, std::span<const std::optional<RankReport>> reports) {
  if (waiting.call.history == 0) return std::nullopt;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (static_cast<int>(i) == waiting.group.rank || !reports[i] || !reports[i]->call) continue;
    if (closed(reports[i]->call) || reports[i]->call->history == waiting.call.history) continue;
    const std::array both{waiting.group.rank, static_cast<int>(i)};
    return Verdict{Finding::Mismatched,
                   fmt::format("{} made different calls on {} long before call {}", waiting.group.ranks_text(both),
                               waiting.group.text(), waiting.call.sequence),
                   static_cast<int>(i)};
  }
  return std::nullopt;
}

/// Why a rank keeps the call waiting; empty: it does not.
std::string lateness(const Waiting& waiting, int rank, const std::optional<RankReport>& report) {
  const std::string name = waiting.group.rank_text(rank);
  if (!report) return name + ": its host has not answered";
  const bool message = is_message(waiting.call);
  if (!message && report->call && !closed(report->call)) {
    if (report->call->completed || !stopped(*report)) return {};
    return fmt::format("{} is late: it entered the call {} ago; its process is stopped", name,
                       duration(report->call->age_ms));
  }
  const bool beyond = !message && report->latest && report->latest->sequence > waiting.call.sequence;
  return beyond ? std::string() : fmt::format("{} is late: it {}", name, whereabouts(waiting, *report));
}

/// Finds the stopped rank that a message waits for: its peer, or a rank for whose message the peer waits, directly or
/// through other ranks. Returns -1 if there is none.
int stopped_behind(const Waiting& waiting, std::span<const std::optional<RankReport>> reports, int peer) {
  std::vector<int> to_visit{peer};
  std::set<int> seen{waiting.group.rank, peer};
  for (std::size_t i = 0; i < to_visit.size(); ++i) {
    const auto& report = reports[static_cast<std::size_t>(to_visit[i])];
    if (!report) continue;
    if (stopped(*report)) return to_visit[i];
    for (const std::int32_t world_rank : report->open_peers) {
      const int rank = waiting.group.place_of(world_rank);
      if (rank >= 0 && seen.insert(rank).second) to_visit.push_back(rank);
    }
  }
  return -1;
}

std::string ranks(const Waiting& waiting, const std::set<int>& of_group) {
  return waiting.group.ranks_text(std::vector(of_group.begin(), of_group.end()));
}

/// Of a call that all are in.
std::string under_way(const Waiting& waiting) {
  const auto& [from, to] = waiting.open;
  if (from.empty() && to.empty()) return {};
  std::vector<std::string> what;
  if (!from.empty()) what.push_back("waits for a message of " + ranks(waiting, from));
  if (!to.empty()) what.push_back(fmt::format("has one for {} that does not leave", ranks(waiting, to)));
  return fmt::format("; {} {}", waiting.group.rank_text(waiting.group.rank), fmt::join(what, " and "));
}

std::string list(const std::vector<std::string>& items) {
  if (items.size() <= kMostLateShown) return fmt::format("{}", fmt::join(items, "; "));
  return fmt::format("{}; and {} more", fmt::join(items.begin(), items.begin() + kMostLateShown, "; "),
                     items.size() - kMostLateShown);
}

}  // namespace

std::string describe_call(const CallReport& call, const Group* on) {
  if (call.fingerprint == kClosedFingerprint) return "no call: it destroyed the communicator";
  if (!is_message(call)) return fmt::format("{} at {}", describe_fingerprint(call.fingerprint), call.site);
  const auto kind = static_cast<Collective>(call.fingerprint & 31);
  if (call.peer < 0) return fmt::format("recv from any rank at {}", call.site);
  const int place = on == nullptr ? -1 : on->place_of(call.peer);
  const std::string peer = place < 0 ? fmt::format("rank {}", call.peer) : on->rank_text(place);
  if (kind == Collective::SendRecv) return fmt::format("messages with {} at {}", peer, call.site);
  return fmt::format("{} {} at {}", kind == Collective::Send ? "send to" : "recv from", peer, call.site);
}

Status Verdict::status() const {
  switch (finding) {
    case Finding::OnItsWay:
    case Finding::Late: return {};
    case Finding::Mismatched: return {Code::Mismatch, text, blamed};
    case Finding::Gone: return {Code::PeerLost, text, blamed};
  }
  return {};
}

Verdict judge(const Waiting& waiting, std::span<const std::optional<RankReport>> reports, const OwnCall& own) {
  const bool message = is_message(waiting.call);
  if (!message) {
    if (std::ranges::any_of(reports, differs)) {
      return mismatch(waiting, reports, own);
    }
    if (auto verdict = differed_before(waiting, reports)) return *verdict;
  }
  const std::string call = describe_call(waiting.call, &waiting.group);
  const std::string name = message
                               ? fmt::format("{} on {}", call, waiting.group.text())
                               : fmt::format("{}, call {} on {}", call, waiting.call.sequence, waiting.group.text());
  const std::string head = fmt::format("{} has waited {} in {}", waiting.group.rank_text(waiting.group.rank),
                                       duration(waiting.waited_ms), name);
  if (message && waiting.call.peer < 0) return {Finding::Late, head + ": no rank has sent it", -1};
  const int peer = message ? waiting.group.place_of(waiting.call.peer) : -1;
  if (message && peer == waiting.group.rank) {
    return {Finding::Late, head + ": this rank itself has not made the call that matches it", peer};
  }
  std::vector<std::string> late;
  int first_late = -1;
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    if (rank == waiting.group.rank || (message && rank != peer)) continue;
    const auto& report = reports[static_cast<std::size_t>(rank)];
    std::string why = lateness(waiting, rank, report);
    if (why.empty()) continue;
    if (report && report->left) {
      return {Finding::Gone, fmt::format("{} has ended its World; {} needs it", waiting.group.rank_text(rank), name),
              rank};
    }
    if (report && gave_up(report->latest) && !waiting.world_end.ok()) {
      return {Finding::Gone,
              fmt::format("{} destroyed the communicator, which {} needs, after {}", waiting.group.rank_text(rank),
                          name, waiting.world_end.message()),
              rank};
    }
    if (first_late < 0) first_late = rank;
    late.push_back(std::move(why));
  }
  if (message && first_late == peer) {
    if (const int cause = stopped_behind(waiting, reports, peer); cause >= 0 && cause != peer) {
      late.insert(late.begin(), lateness(waiting, cause, reports[static_cast<std::size_t>(cause)]));
      first_late = cause;
    }
  }
  if (late.empty()) return {Finding::OnItsWay, head + ": all ranks have come" + under_way(waiting), -1};
  return {Finding::Late, fmt::format("{}: {}", head, list(late)), first_late};
}

}  // namespace sinew
