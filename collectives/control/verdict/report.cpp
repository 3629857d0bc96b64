#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/process_state.hpp>
#include <sinew/topology/format/json/cbor.hpp>

namespace sinew {
namespace {

using Json = nlohmann::json;

/// How far back two ranks compare their calls one by one.
constexpr std::size_t kRecentCalls = 128;

/// The collectives of one communicator, by sequence.
std::map<std::uint32_t, CallSeen> collectives_of(const RecordReader& reader, std::uint64_t communicator) {
  std::map<std::uint32_t, CallSeen> calls;
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    const auto seen = reader.at(i);
    if (seen && seen->communicator == communicator && !seen->message()) calls[seen->sequence] = *seen;
  }
  return calls;
}

std::vector<std::int32_t> peers_of_open_messages(const RecordReader& reader, std::uint64_t communicator) {
  std::set<std::int32_t> peers;
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    const auto seen = reader.at(i);
    if (!seen || !seen->message() || seen->peer < 0) continue;
    // Deadlines of several ranks often pass at the same time. So a message that has just timed out counts as open.
    const bool just_ended =
        seen->completed != 0 && seen->communicator == communicator && static_cast<Code>(seen->outcome) == Code::Timeout;
    if (seen->completed == 0 || just_ended) peers.insert(seen->peer);
  }
  return {peers.begin(), peers.end()};
}

Json to_json(const std::optional<CallReport>& c) {
  if (!c) return nullptr;
  return {c->fingerprint,
          c->history,
          c->communicator,
          c->sequence,
          c->peer,
          c->completed,
          static_cast<int>(c->outcome),
          c->age_ms,
          c->site,
          c->on};
}

std::optional<CallReport> call_from(const Json& row) {
  if (row.is_null()) return std::nullopt;
  return CallReport{.fingerprint = whole<Fingerprint>(row.at(0)),
                    .history = whole<std::uint64_t>(row.at(1)),
                    .communicator = whole<std::uint64_t>(row.at(2)),
                    .sequence = whole<std::uint32_t>(row.at(3)),
                    .peer = whole<std::int32_t>(row.at(4)),
                    .completed = row.at(5),
                    .outcome = static_cast<Code>(whole<std::uint8_t>(row.at(6))),
                    .age_ms = whole<std::int64_t>(row.at(7)),
                    .site = row.at(8),
                    .on = row.at(9)};
}

using Histories = std::map<std::uint64_t, std::map<std::uint32_t, std::uint64_t>>;  // by communicator and sequence

Histories histories_of(const RecordPage* page) {
  Histories all;
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    const auto seen = RecordReader(page).at(i);
    if (!seen || seen->message() || seen->fingerprint == kClosedFingerprint) continue;
    all[seen->communicator][seen->sequence] = seen->history;
  }
  return all;
}

}  // namespace

Bytes Question::encode() const {
  Json calls = Json::array();
  for (const Call& c : recent) calls.push_back({c.sequence, c.fingerprint});
  return to_cbor({asker, communicator, sequence, ranks, calls});
}

Question Question::decode(std::span<const std::byte> bytes) try {
  const Json q = from_cbor(bytes);
  Question question{.asker = whole<std::int32_t>(q.at(0)),
                    .communicator = whole<std::uint64_t>(q.at(1)),
                    .sequence = whole<std::uint32_t>(q.at(2)),
                    .ranks = {},
                    .recent = {}};
  for (const Json& r : q.at(3)) question.ranks.push_back(whole<std::int32_t>(r));
  for (const Json& c : q.at(4)) {
    question.recent.push_back({whole<std::uint32_t>(c.at(0)), whole<Fingerprint>(c.at(1))});
  }
  return question;
} catch (const Json::exception& e) {
  throw Error(Code::Mismatch, std::string("a message that should be a question about calls: ") + e.what());
}

Bytes RankReport::encode(const Question& about, std::span<const RankReport> reports) {
  Json rows = Json::array();
  for (const RankReport& r : reports) {
    rows.push_back({r.rank, r.left, static_cast<int>(r.state), to_json(r.call), to_json(r.differing), to_json(r.latest),
                    to_json(r.latest_anywhere), r.open_peers});
  }
  return to_cbor({about.communicator, about.sequence, rows});
}

std::vector<RankReport> RankReport::decode(std::span<const std::byte> bytes, Question& about) try {
  const Json answer = from_cbor(bytes);
  about.communicator = whole<std::uint64_t>(answer.at(0));
  about.sequence = whole<std::uint32_t>(answer.at(1));
  std::vector<RankReport> reports;
  for (const Json& r : answer.at(2)) {
    reports.push_back({whole<std::int32_t>(r.at(0)), r.at(1), static_cast<char>(whole<std::int8_t>(r.at(2))),
                       call_from(r.at(3)), call_from(r.at(4)), call_from(r.at(5)), call_from(r.at(6))});
    for (const Json& peer : r.at(7)) reports.back().open_peers.push_back(whole<std::int32_t>(peer));
  }
  return reports;
} catch (const Json::exception& e) {
  throw Error(Code::Mismatch, std::string("a message that should be reports of calls: ") + e.what());
}

CallReport tell(const RecordReader& reader, const CallSeen& seen, std::int64_t now) {
  const std::int64_t since = seen.completed != 0 ? seen.completed : seen.entered;
  return {.fingerprint = seen.fingerprint,
          .history = seen.history,
          .communicator = seen.communicator,
          .sequence = seen.sequence,
          .peer = seen.peer,
          .completed = seen.completed != 0,
          .outcome = static_cast<Code>(seen.completed != 0 ? seen.outcome : 0),
          .age_ms = std::max<std::int64_t>(0, now - since) / 1'000'000,
          .site = reader.site(seen.site),
          .on = reader.communicator(seen)};
}

Question ask_about(const RecordPage* mine, int asker, std::uint64_t communicator, std::uint32_t sequence,
                   std::vector<std::int32_t> ranks) {
  Question question{asker, communicator, sequence, std::move(ranks), {}};
  for (const auto& [s, seen] : collectives_of(RecordReader(mine), communicator)) {
    if (s <= sequence && s + kRecentCalls > sequence) question.recent.push_back({s, seen.fingerprint});
  }
  return question;
}

RankReport report_on(const RecordPage* page, int rank, pid_t process, bool left, const Question& question,
                     std::int64_t now) {
  const RecordReader reader(page);
  RankReport report{.rank = rank, .left = left, .state = state_of_process(process)};
  const auto calls = collectives_of(reader, question.communicator);
  if (const auto at = calls.find(question.sequence); at != calls.end()) report.call = tell(reader, at->second, now);
  for (const Question::Call& asked : question.recent) {
    const auto at = calls.find(asked.sequence);
    if (at == calls.end() || at->second.fingerprint == asked.fingerprint) continue;
    report.differing = tell(reader, at->second, now);
    break;
  }
  if (const auto seen = reader.latest(question.communicator)) report.latest = tell(reader, *seen, now);
  if (const auto seen = reader.latest()) report.latest_anywhere = tell(reader, *seen, now);
  report.open_peers = peers_of_open_messages(reader, question.communicator);
  return report;
}

std::optional<CallReport> report_call(const RecordPage* page, std::uint64_t communicator, std::uint32_t sequence,
                                      std::int64_t now) {
  const RecordReader reader(page);
  const auto seen = reader.find(communicator, sequence);
  return seen ? std::optional(tell(reader, *seen, now)) : std::nullopt;
}

std::vector<std::uint64_t> communicators_that_differ(const RecordPage* a, const RecordPage* b) {
  std::vector<std::uint64_t> differing;
  const Histories theirs = histories_of(b);
  for (const auto& [communicator, mine] : histories_of(a)) {
    const auto known = theirs.find(communicator);
    if (known == theirs.end()) continue;
    for (auto call = mine.rbegin(); call != mine.rend(); ++call) {
      const auto same = known->second.find(call->first);
      if (same == known->second.end()) continue;
      if (same->second != call->second) differing.push_back(communicator);
      break;  // the history holds all that came before
    }
  }
  return differing;
}

}  // namespace sinew
