#include <algorithm>
#include <bit>

#include <sinew/collectives/trace/call_history.hpp>

namespace sinew {
namespace {

constexpr std::uint64_t kLargestPower = std::uint64_t{1} << 63;

}  // namespace

void CallHistory::add(EndedCall call, const Candidate* way) {
  if (rows_.size() >= kMostSizes && !rows_.contains(call.key) && call.key.bytes <= kLargestPower)
    call.key.bytes = std::bit_ceil(call.key.bytes);
  Row& row = rows_[call.key];
  ++row.calls;
  if (call.outcome != Code::Ok) ++row.failed;
  row.total_ns += call.completed - call.entered;
  if (way != nullptr) {
    if (row.algorithm != way->algorithm) row.algorithm = way->algorithm;
    if (row.transport != way->transport) row.transport = way->transport;
    row.predicted = way->predicted;
  }
  if (call.outcome != Code::Ok) return;
  if (latest_.size() < kLatest) {
    latest_.push_back(call);
  } else {
    latest_[next_] = call;
    next_ = (next_ + 1) % kLatest;
  }
}

std::vector<TimedCall> CallHistory::latest(std::int64_t ahead_ns) const {
  std::vector<TimedCall> calls;
  for (const EndedCall& c : latest_) {
    if (!is_message(c.key.collective)) calls.push_back({c.sequence, c.entered - ahead_ns, c.completed - ahead_ns});
  }
  std::ranges::sort(calls, {}, &TimedCall::sequence);
  return calls;
}

std::vector<CallStats> CallHistory::stats(std::span<const std::vector<TimedCall>> everybody, int rank) const {
  std::map<CallKey, CallTally> tallies;
  std::map<std::int64_t, CallKey> keys;
  for (const EndedCall& c : latest_) {
    if (is_message(c.key.collective)) {
      tallies[c.key].add_alone(c.completed - c.entered);
    } else {
      keys[c.sequence] = c.key;
    }
  }
  std::vector<std::vector<TimedCall>::const_iterator> at;
  for (const auto& calls : everybody) at.push_back(calls.begin());
  for (const TimedCall& own : everybody[static_cast<std::size_t>(rank)]) {
    CollectiveTiming timing;
    for (std::size_t r = 0; r < everybody.size(); ++r) {
      while (at[r] != everybody[r].end() && at[r]->sequence < own.sequence) ++at[r];
      if (at[r] == everybody[r].end() || at[r]->sequence != own.sequence) break;
      timing.add({static_cast<int>(r), at[r]->entered, at[r]->completed});
    }
    const auto key = keys.find(own.sequence);
    if (key == keys.end() || timing.ranks() != static_cast<int>(everybody.size())) continue;
    const Seconds predicted = rows_.at(key->second).predicted;
    tallies[key->second].add(timing, predicted > 0 ? std::optional(predicted) : std::nullopt);
  }
  std::vector<CallStats> all;
  for (const auto& [key, row] : rows_) {
    CallStats& s = all.emplace_back();
    s.collective = key.collective;
    s.dtype = key.dtype;
    s.bytes = key.bytes;
    s.algorithm = row.algorithm;
    s.transport = row.transport;
    s.calls = row.calls;
    s.failed = row.failed;
    s.total = static_cast<double>(row.total_ns) * 1e-9;
    if (const auto tally = tallies.find(key); tally != tallies.end())
      tally->second.fill(s, static_cast<int>(everybody.size()));
  }
  return all;
}

}  // namespace sinew
