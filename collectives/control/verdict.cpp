#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/control/verdict.hpp>

namespace sinew {
namespace {

constexpr std::size_t kMostRanksNamed = 8;

std::string duration(std::int64_t ms) {
  return ms < 1000 ? fmt::format("{} ms", ms) : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000.0);
}

bool is_message(const CallReport& call) noexcept {
  return call.fingerprint != kClosedFingerprint && is_message(static_cast<Collective>(call.fingerprint & 31));
}

bool stopped(const RankReport& report) noexcept { return report.state == 'T' || report.state == 't'; }

/// A call of the communicator that waits, its peer by the name that texts have for it.
CallReport with_names(const Waiting& waiting, CallReport call) {
  if (call.communicator == waiting.call.communicator && is_message(call)) call.peer = waiting.named(call.peer);
  return call;
}

/// Where a rank is that has not come.
std::string whereabouts(const Waiting& waiting, const RankReport& report) {
  std::string text;
  auto last = report.latest_anywhere;
  if (last) last = with_names(waiting, *last);
  if (!last) {
    text = "has made no call yet";
  } else if (last->fingerprint == kClosedFingerprint) {
    text = fmt::format("destroyed communicator {} {} ago", last->id, duration(last->age_ms));
  } else if (last->completed) {
    text = fmt::format("has been in no call for {}, since {} on communicator {}", duration(last->age_ms),
                       describe_call(*last), last->id);
  } else {
    text =
        fmt::format("has been in {} on communicator {} for {}", describe_call(*last), last->id, duration(last->age_ms));
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
    std::vector<int> ranks;
    CallReport call;
  };
  std::map<Fingerprint, Side> sides;
  std::map<int, int> places;  // by what texts call a rank
  const auto add = [&](int rank, const CallReport& call) {
    Side& side = sides[call.fingerprint];
    const int name = waiting.named(rank);
    places[name] = rank;
    side.ranks.push_back(name);
    if (side.ranks.size() == 1 || name < side.ranks[0]) side.call = call;
  };
  if (const auto mine = own(first)) add(waiting.rank, *mine);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const auto& r = reports[i];
    if (static_cast<int>(i) == waiting.rank || !r) continue;
    if (differs(r) && r->differing->sequence == first) {
      add(static_cast<int>(i), *r->differing);
    } else if (r->call && r->call->sequence == first) {
      add(static_cast<int>(i), *r->call);
    }
  }
  std::vector<Side> ordered;
  for (auto& [fingerprint, side] : sides) {
    std::ranges::sort(side.ranks);
    ordered.push_back(std::move(side));
  }
  std::ranges::sort(ordered, {}, [](const Side& s) { return s.ranks[0]; });
  std::string text;
  for (const Side& s : ordered) {
    text += fmt::format("{} {} {}: {}", text.empty() ? "" : ";", s.ranks.size() == 1 ? "rank" : "ranks",
                        fmt::join(s.ranks, ", "), describe_call(s.call));
  }
  const int blamed = ordered.size() > 1 ? places[ordered[1].ranks[0]] : -1;
  return {Finding::Mismatched,
          fmt::format("call {} of communicator {} is not the same on all ranks:{}", first, waiting.call.id, text),
          blamed};
}

/// A difference so long ago that no ring remembers it, known by the hash of all calls, unless the own ring has
/// forgotten that, too.
std::optional<Verdict> differed_before(const Waiting& waiting, std::span<const std::optional<RankReport>> reports) {
  if (waiting.call.history == 0) return std::nullopt;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (static_cast<int>(i) == waiting.rank || !reports[i] || !reports[i]->call) continue;
    if (closed(reports[i]->call) || reports[i]->call->history == waiting.call.history) continue;
    const auto [low, high] = std::minmax({waiting.named(waiting.rank), waiting.named(static_cast<int>(i))});
    return Verdict{Finding::Mismatched,
                   fmt::format("ranks {} and {} made different calls on communicator {} long before call {}", low, high,
                               waiting.call.id, waiting.call.sequence),
                   static_cast<int>(i)};
  }
  return std::nullopt;
}

/// Why a rank keeps the call waiting; empty: it does not.
std::string lateness(const Waiting& waiting, int rank, const std::optional<RankReport>& report) {
  const int name = waiting.named(rank);
  if (!report) return fmt::format("rank {}: its host has not answered", name);
  const bool message = is_message(waiting.call);
  if (!message && report->call && !closed(report->call)) {
    if (report->call->completed || !stopped(*report)) return {};
    return fmt::format("rank {} is late: it entered the call {} ago; its process is stopped", name,
                       duration(report->call->age_ms));
  }
  const bool beyond = !message && report->latest && report->latest->sequence > waiting.call.sequence;
  return beyond ? std::string() : fmt::format("rank {} is late: it {}", name, whereabouts(waiting, *report));
}

std::string ranks(const Waiting& waiting, const std::set<int>& in_communicator) {
  std::set<int> all;
  for (const int rank : in_communicator) all.insert(waiting.named(rank));
  const auto end = std::ranges::next(all.begin(), kMostRanksNamed, all.end());
  const std::string more = end == all.end() ? "" : fmt::format(" and {} more", all.size() - kMostRanksNamed);
  return fmt::format("rank{} {}{}", all.size() == 1 ? "" : "s", fmt::join(all.begin(), end, ", "), more);
}

/// Of a call that all are in.
std::string under_way(const Waiting& waiting) {
  const auto& [from, to] = waiting.open;
  if (from.empty() && to.empty()) return {};
  std::vector<std::string> what;
  if (!from.empty()) what.push_back("waits for a message of " + ranks(waiting, from));
  if (!to.empty()) what.push_back(fmt::format("has one for {} that does not leave", ranks(waiting, to)));
  return fmt::format("; rank {} {}", waiting.named(waiting.rank), fmt::join(what, " and "));
}

std::string list(const std::vector<std::string>& items) {
  if (items.size() <= kMostRanksNamed) return fmt::format("{}", fmt::join(items, "; "));
  return fmt::format("{}; and {} more", fmt::join(items.begin(), items.begin() + kMostRanksNamed, "; "),
                     items.size() - kMostRanksNamed);
}

}  // namespace

int Waiting::named(int rank_in_communicator) const noexcept {
  const auto r = static_cast<std::size_t>(rank_in_communicator);
  return r < world_ranks.size() ? world_ranks[r] : rank_in_communicator;
}

std::string describe_call(const CallReport& call) {
  if (call.fingerprint == kClosedFingerprint) return "no call: it destroyed the communicator";
  if (!is_message(call)) return fmt::format("{} at {}", describe_fingerprint(call.fingerprint), call.site);
  const auto kind = static_cast<Collective>(call.fingerprint & 31);
  if (kind == Collective::SendRecv) return fmt::format("messages with rank {} at {}", call.peer, call.site);
  const bool sends = kind == Collective::Send;
  return fmt::format("{} {} rank {} at {}", sends ? "send" : "recv", sends ? "to" : "from", call.peer, call.site);
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
  const std::string call = describe_call(with_names(waiting, waiting.call));
  const std::string name =
      message ? fmt::format("{} on communicator {}", call, waiting.call.id)
              : fmt::format("{}, call {} of communicator {}", call, waiting.call.sequence, waiting.call.id);
  std::vector<std::string> late;
  int first_late = -1;
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    if (rank == waiting.rank || (message && rank != waiting.call.peer)) continue;
    const auto& report = reports[static_cast<std::size_t>(rank)];
    std::string why = lateness(waiting, rank, report);
    if (why.empty()) continue;
    if (report && report->left) {
      return {Finding::Gone, fmt::format("rank {} has ended its World; {} needs it", waiting.named(rank), name), rank};
    }
    if (report && gave_up(report->latest) && !waiting.world_end.ok()) {
      return {Finding::Gone,
              fmt::format("rank {} destroyed the communicator, which {} needs, after {}", waiting.named(rank), name,
                          waiting.world_end.message()),
              rank};
    }
    if (first_late < 0) first_late = rank;
    late.push_back(std::move(why));
  }
  const std::string head =
      fmt::format("rank {} has waited {} in {}", waiting.named(waiting.rank), duration(waiting.waited_ms), name);
  if (late.empty()) return {Finding::OnItsWay, head + ": all ranks have come" + under_way(waiting), -1};
  return {Finding::Late, fmt::format("{}: {}", head, list(late)), first_late};
}

}  // namespace sinew
