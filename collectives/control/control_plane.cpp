#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <sinew/collectives/control/control_plane.hpp>
#include <sinew/core/log.hpp>

namespace sinew {
namespace {

using std::chrono::milliseconds;

/// After such a wait a rank looks for the reason, if that costs the host little (patience_of).
constexpr auto kPatience = milliseconds(200);
constexpr std::size_t kRanksAtFullPace = 128;
/// The time to read the records of one rank of this host: two page faults at first, and a file of /proc.
constexpr auto kReadRecords = std::chrono::microseconds(40);
/// All ranks of a host together spend at most one part in so many of its time on these looks.
constexpr int kPartOfTime = 4;
/// How long a call that saw its peer's end, or another call, waits for the whole story, and a message for what its peer
/// did before it went.
constexpr auto kHoldFor = milliseconds(1000);
constexpr auto kLookAgain = milliseconds(5);
/// After this rank has ended its own calls, it waits so long before it ends the calls of other ranks that need it.
constexpr auto kEndsElsewhere = milliseconds(1000);

/// Describes a call for an error: "all_reduce(f32, sum, count 4) at train.cpp:12" or "send to rank 5 (1 in tp) at ...".
std::string text_of_call(const PendingCall& call, const Group& group) {
  CallReport report;
  report.fingerprint = call.fingerprint;
  report.peer = call.peer < 0 ? -1 : group.world_rank(call.peer);
  report.site = site_of(call);
  return describe_call(report, &group);
}

/// Adds the call, the communicator and the communicator's name of the blamed rank to the text of `status`.
Status name_call(const PendingCall& call, const Group& group, const Status& status) {
  std::string text = fmt::format("{} on {}: {}", text_of_call(call, group), group.text(), status.message());
  const int place = status.rank();
  const bool is_known = place >= 0 && place < group.size();
  if (is_known && group.world_rank(place) != place && text.find(group.rank_text(place)) == std::string::npos)
    text += fmt::format("; {}", group.rank_text(place));
  return {status.code(), std::move(text), place};
}

/// The status of a failed call, with its rank as a number of the communicator. Transports report a message's peer as a
/// World rank, so that number is converted here.
Status counted_in(const Group& group, const PendingCall& call) {
  if (!is_message(call)) return call.status;
  const int place = group.place_of(call.status.rank());
  return {call.status.code(), std::string(call.status.message()), place < 0 ? call.peer : place};
}

/// What a call ends with: of a peer that is gone nobody knows yet which call needed it.
Status end_for(const PendingCall& call, const Group& group, const Status& reason) {
  const bool names_it = reason.message().find(describe_fingerprint(call.fingerprint)) != std::string_view::npos;
  return reason.code() != Code::PeerLost || names_it ? reason : name_call(call, group, reason);
}

/// The time between two looks of a rank at the records of all ranks of its host. Each of N ranks reads N records. With
/// more ranks than cores, those that wait would otherwise keep the cores from the ranks that they wait for.
Duration patience_of(const HostPeers& host) noexcept {
  const auto ranks = std::ssize(host.ranks());
  const Duration all_look = kReadRecords * ranks * ranks / std::max(host.usable_cores(), 1);
  return std::max<Duration>(kPatience, kPartOfTime * all_look);
}

}  // namespace

ControlPlane::ControlPlane(const Exchange& exchange, const ControlSetup& setup, CallSlab& calls)
    : calls_(calls),
      service_(exchange, setup),
      ring_(service_.records(), exchange.rank),
      patience_(patience_of(setup.host)) {}

ControlPlane::~ControlPlane() = default;

void ControlPlane::add(Controlled& communicator) {
  communicators_[communicator.owner()] = &communicator;
  const Group& group = communicator.members();
  ring_.join(group);
  if (const Status end = service_.end_of(group.identity, group.world_ranks); !end.ok()) communicator.end(end);
}

void ControlPlane::remove(Controlled& communicator) {
  if (communicator.end_reason().ok()) {
    judge_past(communicator);
    // No call is left that could tell.
    if (!communicator.end_reason().ok()) log::warning("{}", communicator.end_reason().message());
  }
  const Status& end = communicator.end_reason();
  const Group& group = communicator.members();
  const auto last = RecordReader(ring_.page()).latest(group.identity);
  ring_
      .enter({.communicator = group.identity,
              .fingerprint = kClosedFingerprint,
              .history = last && !last->message() ? last->history : 0,
              .sequence = communicator.last_sequence() + 1,
              .peer = -1,
              .id = group.communicator},
             std::source_location::current())
      .complete(end.ok() ? world_end().code() : end.code());
  ring_.leave(group.identity);
  communicators_.erase(communicator.owner());
}

Status ControlPlane::world_end() const { return service_.world_end(); }

Status ControlPlane::abort_that_says(std::string_view text) const {
  const auto is_it = [&](const Status& end) { return end.code() == Code::Aborted && end.message() == text; };
  if (const Status end = world_end(); is_it(end)) return end;
  for (const auto& [owner, communicator] : communicators_) {
    const Status& end = communicator->end_reason();
    if (!is_it(end)) continue;
    const int place = end.rank();
    return {Code::Aborted, std::string(text), place < 0 ? -1 : communicator->members().world_rank(place)};
  }
  return {};
}

Controlled* ControlPlane::owner_of(const PendingCall& call) noexcept {
  const auto at = communicators_.find(call.owner);
  return at == communicators_.end() ? nullptr : at->second;
}

void ControlPlane::end(Controlled& communicator, const Status& reason) {
  if (!communicator.end_reason().ok()) return;  // that end has been announced to the others
  const Group& group = communicator.members();
  // A rank that has left may have announced its reason first, and that reason takes precedence.
  const bool is_gone = reason.code() == Code::PeerLost;
  if (is_gone) service_.look_everywhere();
  if (!is_gone || service_.end_of(group.identity, group.world_ranks).ok())
    service_.announce(Notice::of(NoticeKind::CommunicatorEnded, service_.rank(), reason, group.identity));
  communicator.end(service_.end_of(group.identity, group.world_ranks));
}

void ControlPlane::end_here(Controlled& communicator, const Status& reason) {
  if (!communicator.end_reason().ok()) return;
  const std::uint64_t identity = communicator.members().identity;
  deferred_.push_back(
      {Clock::now() + kEndsElsewhere, Notice::of(NoticeKind::CommunicatorEnded, service_.rank(), reason, identity)});
  communicator.end(reason);
}

void ControlPlane::end_world(const Status& reason, int patience_ms) {
  service_.announce_end(Notice::of(NoticeKind::WorldEnded, service_.rank(), reason), patience_ms);
  end_what_must();
}

void ControlPlane::end_what_must() {
  for (const auto& [owner, communicator] : communicators_) {
    if (!communicator->end_reason().ok()) continue;
    const Group& group = communicator->members();
    const Status end = service_.end_of(group.identity, group.world_ranks);
    if (!end.ok()) communicator->end(end);
  }
}

int ControlPlane::progress() noexcept {
  if (!active()) return 0;
  int events = 0;
  if (service_.news()) {
    const std::vector<Notice> news = service_.take_news();
    events += static_cast<int>(news.size());
    end_what_must();
    for (const Notice& n : news) {
      if (n.kind == NoticeKind::RankLost && lost_) lost_(n.world_rank);
      if (n.kind != NoticeKind::Suspicion) continue;
      for (const auto& [owner, communicator] : communicators_) {
        if (communicator->members().identity == n.communicator) judge_past(*communicator);
      }
    }
  }
  if (!held_.empty()) {
    const auto now = Clock::now();
    events += static_cast<int>(std::erase_if(held_, [&](Held& held) { return settle(held, now); }));
  }
  return events;
}

bool ControlPlane::hold(PendingCall& call) {
  Controlled* communicator = owner_of(call);
  if (communicator == nullptr) return false;
  ring_.count_failed(communicator->members(), collective_of(call.fingerprint));
  if (!communicator->end_reason().ok()) {
    call.status = end_for(call, communicator->members(), communicator->end_reason());
    return false;
  }
  // A message that was too long, or that its receiver took back, is an affair of two.
  if (is_message(call) && call.status.code() != Code::PeerLost) {
    const Group& group = communicator->members();
    call.status = name_call(call, group, counted_in(group, call));
    return false;
  }
  held_.push_back({&call, Clock::now(), {}});
  return true;
}

/// true: the call has ended.
bool ControlPlane::settle(Held& held, Clock::time_point now) {
  PendingCall& call = *held.call;
  Controlled* communicator = owner_of(call);
  if (communicator != nullptr && communicator->end_reason().ok() && now < held.look_at) return false;
  held.look_at = now + kLookAgain;
  if (communicator != nullptr && communicator->end_reason().ok()) {
    const Code code = call.status.code();
    const Verdict verdict = judge_call(call, *communicator, now);
    const Status known = verdict.status();
    // Aborted: a transport saw a peer give the communicator up, and that peer is about to say why.
    const bool is_final = code != Code::PeerLost && code != Code::Mismatch && code != Code::Aborted;
    if (!known.ok() && (known.code() == code || known.code() == Code::Mismatch)) {
      end(*communicator, known);
    } else if (is_final || now - held.since > kHoldFor) {
      const Group& group = communicator->members();
      end(*communicator, name_call(call, group, counted_in(group, call)));
    } else {
      return false;
    }
  }
  if (communicator != nullptr) call.status = end_for(call, communicator->members(), communicator->end_reason());
  CallSlab::settle(call);
  return true;
}

std::vector<std::optional<RankReport>> ControlPlane::reports_on(const Group& group, const Question& question) {
  std::vector<std::optional<RankReport>> reports(group.world_ranks.size());
  bool elsewhere = false;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ControlPeer& peer = service_.peers()[static_cast<std::size_t>(group.world_ranks[i])];
    if (peer.rank == service_.rank()) continue;
    if (!peer.page) {
      reports[i] = service_.report(peer.rank, question.communicator, question.sequence);
      elsewhere = true;
    }
    if (!peer.records) continue;
    const bool left = service_.left(peer.rank) || peer.page->left.load(std::memory_order_acquire) != 0;
    reports[i] = report_on(peer.records.get(), peer.rank, peer.process, left, question);
  }
  if (elsewhere) service_.ask(question);
  return reports;
}

Verdict ControlPlane::judge_call(const PendingCall& call, const Controlled& communicator, Clock::time_point now) {
  const Group& group = communicator.members();
  const Question question = ask_about(ring_.page(), service_.rank(), group.identity, call.sequence, group.world_ranks);
  Waiting waiting;
  waiting.group = group;
  waiting.world_end = world_end();
  if (const auto recorded = report_call(ring_.page(), group.identity, call.sequence); recorded && !is_message(call)) {
    waiting.call = *recorded;
  } else {
    waiting.call.fingerprint = call.fingerprint;
    waiting.call.communicator = group.identity;
    waiting.call.sequence = call.sequence;
    waiting.call.peer = call.peer < 0 ? -1 : group.world_rank(call.peer);
    waiting.call.site = site_of(call);
  }
  if (call.first_seen_waiting != Clock::time_point{}) {
    waiting.waited_ms = std::chrono::duration_cast<milliseconds>(now - call.first_seen_waiting).count();
  }
  if (!is_message(call)) waiting.open = communicator.open_messages(call.sequence);
  return judge(waiting, reports_on(group, question),
               [&](std::uint32_t sequence) { return report_call(ring_.page(), group.identity, sequence); });
}

/// Compares the calls that all have made with the others' records, though nothing waits.
void ControlPlane::judge_past(Controlled& communicator) {
  const Group& group = communicator.members();
  std::uint32_t common = communicator.last_sequence();
  for (const int r : group.world_ranks) {
    const ControlPeer& peer = service_.peers()[static_cast<std::size_t>(r)];
    const auto latest = peer.records ? RecordReader(peer.records.get()).latest(group.identity) : std::nullopt;
    if (!latest || latest->message()) continue;
    common = std::min(common, latest->sequence - (latest->fingerprint == kClosedFingerprint ? 1 : 0));
  }
  const auto last = report_call(ring_.page(), group.identity, common);
  if (!last) return;
  const Question question = ask_about(ring_.page(), service_.rank(), group.identity, last->sequence, group.world_ranks);
  const Waiting waiting{.call = *last, .group = group};
  const Verdict verdict = judge(waiting, reports_on(group, question), [&](std::uint32_t sequence) {
    return report_call(ring_.page(), group.identity, sequence);
  });
  if (verdict.finding == Finding::Mismatched) end(communicator, verdict.status());
}

void ControlPlane::watch(Clock::time_point now) {
  std::erase_if(deferred_, [&](const Deferred& d) {
    if (now < d.at) return false;
    service_.announce(d.notice);
    return true;
  });
  std::vector<PendingCall*> pending;
  std::vector<PendingCall*> expired;
  calls_.for_each_pending([&](PendingCall& call) {
    pending.push_back(&call);
    if (call.first_seen_waiting == Clock::time_point{}) call.first_seen_waiting = now;
    if (call.deadline.given() && now >= call.deadline.at()) expired.push_back(&call);
  });
  for (PendingCall* call : expired) {
    Controlled* communicator = owner_of(*call);
    if (communicator == nullptr || !communicator->end_reason().ok()) continue;
    const Verdict verdict = judge_call(*call, *communicator, now);
    const Status known = verdict.status();
    end(*communicator, known.ok() ? Status(Code::Timeout, "deadline passed: " + verdict.text, verdict.blamed) : known);
  }
  // Who waits asks all other hosts, and of so many that nobody may be kept from its work by the questions of all.
  const Duration pace = kPatience * static_cast<int>(1 + service_.peers().size() / kRanksAtFullPace);
  if (now - judged_ < std::max(pace, patience_)) return;
  judged_ = now;
  judge_pending(pending, now);
}

/// A rank that goes may have sent the message that the call waits for, or taken the one that it sends: then the end of
/// the call is on its way. Else a transport that has met the rank says so, as a rule before this does.
bool ControlPlane::may_still_come(const PendingCall& call, Clock::time_point now) {
  if (!is_message(call)) return false;
  Missed& missed = missed_[&call];
  if (missed.serial != call.serial || missed.peer != call.peer) missed = {call.serial, call.peer, now};
  return now - missed.since < kHoldFor;
}

/// Of each communicator, its oldest collective and every message.
void ControlPlane::judge_pending(const std::vector<PendingCall*>& pending, Clock::time_point now) {
  std::map<const void*, PendingCall*> oldest;
  std::vector<PendingCall*> chosen;
  for (PendingCall* call : pending) {
    if (now - call->first_seen_waiting < patience_) continue;
    if (is_message(*call)) {
      chosen.push_back(call);
      continue;
    }
    PendingCall*& first = oldest[call->owner];
    if (first == nullptr || call->sequence < first->sequence) first = call;
  }
  for (const auto& [owner, call] : oldest) chosen.push_back(call);
  for (PendingCall* call : chosen) {
    Controlled* communicator = owner_of(*call);
    if (communicator == nullptr || !communicator->end_reason().ok()) continue;
    const Verdict verdict = judge_call(*call, *communicator, now);
    if (verdict.finding == Finding::Gone && may_still_come(*call, now)) continue;
    if (const Status status = verdict.status(); !status.ok()) {
      end(*communicator, status);
    } else if (verdict.finding == Finding::Late && told_[call] != call->serial) {
      told_[call] = call->serial;
      log::info("{}", verdict.text);
    }
  }
}

void ControlPlane::name_site(PendingCall& call, const std::string& text) {
  call.named = ring_.rename(call.record, text);
}

std::string ControlPlane::explain(const PendingCall& call) {
  Controlled* communicator = owner_of(call);
  return communicator == nullptr ? std::string() : judge_call(call, *communicator, Clock::now()).text;
}

std::string ControlPlane::verdict(const Controlled& communicator) {
  const PendingCall* oldest = nullptr;
  calls_.for_each_pending([&](const PendingCall& call) {
    if (call.owner != communicator.owner()) return;
    if (oldest == nullptr || call.sequence < oldest->sequence) oldest = &call;
  });
  return oldest == nullptr ? std::string() : explain(*oldest);
}

}  // namespace sinew
