#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/store/elastic_members.hpp>
#include <sinew/core/store/store_table.hpp>

namespace sinew {
namespace {

/// Shape: ascending, and positive. Errors: InvalidArgument.
void require_counts(const std::vector<int>& counts) {
  const bool ascending = std::ranges::adjacent_find(counts, std::greater_equal{}) == counts.end();
  if (!counts.empty() && (!ascending || counts.front() < 1))
    throw Error(Code::InvalidArgument,
                fmt::format("the numbers of ranks for a round are [{}], expected positive ones that ascend",
                            fmt::join(counts, ", ")));
}

int checked_size(WireReader& reader) {
  const auto size = reader.value<std::uint32_t>();
  if (size > static_cast<std::uint32_t>(kMostRanks))
    throw Error(Code::Mismatch, fmt::format("a round of {} entries, expected {} at most", size, kMostRanks));
  return static_cast<int>(size);
}

}  // namespace

Bytes MemberRequest::encode() const {
  WireWriter writer;
  writer.text(host).value(pid).value(static_cast<std::uint32_t>(counts.size()));
  for (const int c : counts) writer.value(c);
  return writer.value(static_cast<std::uint8_t>(holds_state)).take();
}

MemberRequest MemberRequest::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  MemberRequest request;
  request.host = reader.text();
  request.pid = reader.value<int>();
  for (int left = checked_size(reader); left > 0; --left) request.counts.push_back(reader.value<int>());
  request.holds_state = reader.value<std::uint8_t>() != 0;
  return request;
}

Bytes FormedRound::encode() const {
  WireWriter writer;
  writer.value(number).value(ranks).value(place).value(static_cast<std::uint32_t>(members.size()));
  for (const RoundMember& m : members) writer.text(m.host).value(m.pid).value(m.before);
  return writer.take();
}

FormedRound FormedRound::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  FormedRound round;
  round.number = reader.value<std::uint64_t>();
  round.ranks = reader.value<int>();
  round.place = reader.value<int>();
  for (int left = checked_size(reader); left > 0; --left) {
    RoundMember m;
    m.host = reader.text();
    m.pid = reader.value<int>();
    m.before = reader.value<int>();
    round.members.push_back(std::move(m));
  }
  return round;
}

std::string group_of_ranks(std::uint64_t round) { return fmt::format("ranks of round {}", round); }
std::string group_of_members(std::uint64_t round) { return fmt::format("members of round {}", round); }

std::optional<ElasticMembers::Seat> ElasticMembers::seat_of(Id id) const {
  const auto at = members_.find(id);
  if (at == members_.end() || at->second.waits || at->second.place < 0) return std::nullopt;
  return Seat{at->second.place, ranks_, in_round_, number_};
}

void ElasticMembers::wait(Id id, MemberRequest request) {
  require_counts(request.counts);
  if (counts_ && *counts_ != request.counts)
    throw Error(Code::InvalidArgument,
                fmt::format("pid {} on {} can run with [{}] ranks, the other members with [{}]: expected the same "
                            "program with the same options",
                            request.pid, request.host, fmt::join(request.counts, ", "), fmt::join(*counts_, ", ")));
  counts_ = request.counts;
  const auto [at, fresh] = members_.try_emplace(id);
  if (fresh) at->second.arrival = arrivals_++;
  at->second.request = std::move(request);
  at->second.waits = true;
  at->second.place = -1;
  first_arrival_ = std::min(first_arrival_, Clock::now());
}

void ElasticMembers::leave(Id id) {
  if (const auto at = members_.find(id); at != members_.end()) {
    if (at->second.rank >= 0) last_departure_ = Clock::now();
    members_.erase(at);
  }
  if (members_.empty()) counts_.reset();
}

int ElasticMembers::waiting() const noexcept {
  return static_cast<int>(std::ranges::count_if(members_, [](const auto& m) { return m.second.waits; }));
}

std::optional<int> ElasticMembers::ranks_for(int available) const {
  available = std::min(available, limits_.most);
  if (!counts_ || counts_->empty()) return available >= limits_.least ? std::optional(available) : std::nullopt;
  const auto behind = std::ranges::upper_bound(*counts_, available);
  if (behind == counts_->begin() || *(behind - 1) < limits_.least) return std::nullopt;
  return *(behind - 1);
}

Deadline ElasticMembers::next_look() const noexcept {
  if (members_.empty()) return Deadline::never();
  const Clock::time_point at = earliest();
  return at > Clock::now() ? Deadline(at) : Deadline::never();
}

Clock::time_point ElasticMembers::earliest() const noexcept {
  if (number_ == 0) return waiting() < expected_ ? first_arrival_ + limits_.first_wait : Clock::time_point{};
  const bool any_rank = std::ranges::any_of(members_, [](const auto& m) { return m.second.rank >= 0; });
  return any_rank ? Clock::time_point{} : last_departure_ + limits_.anew_wait;
}

std::optional<ElasticMembers::Formed> ElasticMembers::form(Clock::time_point now) {
  const bool all_wait =
      std::ranges::all_of(members_, [](const auto& m) { return m.second.waits || m.second.rank < 0; });
  const std::optional<int> ranks = ranks_for(waiting());
  if (!all_wait || !ranks) return std::nullopt;
  if (now < earliest()) return std::nullopt;

  Formed formed{{.number = ++number_, .ranks = *ranks}, order(*ranks)};
  for (std::size_t i = 0; i < formed.ids.size(); ++i) {
    Member& m = members_.at(formed.ids[i]);
    formed.round.members.push_back({m.request.host, m.request.pid, m.rank});
    m.waits = false;
    m.place = static_cast<int>(i);
    m.rank = m.place < *ranks ? m.place : -1;
  }
  ranks_ = *ranks;
  in_round_ = static_cast<int>(formed.ids.size());
  return formed;
}

/// New members of one host are neighbours, and hosts are in the order in which their first members came. Members that
/// hold state come first.
void ElasticMembers::sort_by_host(std::vector<Id>& fresh) const {
  std::map<std::string, std::uint64_t> came;
  for (const Id id : fresh) {
    const Member& m = members_.at(id);
    const auto [at, first] = came.emplace(m.request.host, m.arrival);
    at->second = std::min(at->second, m.arrival);
  }
  std::ranges::sort(fresh, {}, [&](Id id) {
    const Member& m = members_.at(id);
    return std::tuple(!m.request.holds_state, came.at(m.request.host), m.arrival);
  });
}

/// The ranks of a replica of the model. The same place of another replica holds the same part of the state.
int ElasticMembers::unit() const noexcept {
  int unit = 0;
  if (counts_) {
    for (const int c : *counts_) unit = std::gcd(unit, c);
  }
  return std::max(unit, 1);
}

/// The members of the next round by rank, and behind them those that only hand over their state.
std::vector<ElasticMembers::Id> ElasticMembers::order(int ranks) const {
  constexpr Id kFree = ~Id{0};
  std::vector<Id> places(static_cast<std::size_t>(ranks), kFree);
  std::vector<Id> beyond;  // members whose rank is too high, by this rank
  std::vector<Id> fresh;
  for (const auto& [id, m] : members_) {
    if (!m.waits) continue;
    if (m.rank < 0) {
      fresh.push_back(id);
    } else if (m.rank < ranks) {
      places[static_cast<std::size_t>(m.rank)] = id;
    } else {
      beyond.push_back(id);
    }
  }
  std::ranges::sort(beyond, {}, [&](Id id) { return members_.at(id).rank; });
  sort_by_host(fresh);
  const auto take = [](std::vector<Id>& from, auto at) {
    const Id id = *at;
    from.erase(at);
    return id;
  };
  const int replica = unit();
  for (int place = 0; place < ranks; ++place) {
    Id& id = places[static_cast<std::size_t>(place)];
    if (id != kFree) continue;
    if (!beyond.empty()) {
      const auto same =
          std::ranges::find_if(beyond, [&](Id b) { return members_.at(b).rank % replica == place % replica; });
      id = take(beyond, same == beyond.end() ? beyond.begin() : same);
      continue;
    }
    // A new member of the host of the rank before it, so that replicas stay within hosts.
    auto same = fresh.end();
    if (place > 0) {
      const std::string& host = members_.at(places[static_cast<std::size_t>(place) - 1]).request.host;
      same = std::ranges::find_if(fresh, [&](Id f) { return members_.at(f).request.host == host; });
    }
    id = take(fresh, same == fresh.end() ? fresh.begin() : same);
  }
  for (const std::vector<Id>* left : {&beyond, &fresh}) {
    for (const Id id : *left) {
      if (members_.at(id).request.holds_state) places.push_back(id);
    }
  }
  return places;
}

bool ElasticMembers::is_change_due() const {
  const auto available =
      std::ranges::count_if(members_, [](const auto& m) { return m.second.waits || m.second.rank >= 0; });
  const std::optional<int> ranks = ranks_for(static_cast<int>(available));
  return number_ != 0 && ranks && *ranks > ranks_;
}

std::string ElasticMembers::waits_for() const {
  std::string text = fmt::format("{} member{} wait{}", waiting(), waiting() == 1 ? "" : "s", waiting() == 1 ? "s" : "");
  if (!ranks_for(waiting())) {
    const bool any = !counts_ || counts_->empty();
    text += fmt::format(", the job runs with {} ranks at least", limits_.least);
    if (!any) text += fmt::format(", and its program with one of [{}]", fmt::join(*counts_, ", "));
  }
  for (const auto& [id, m] : members_) {
    if (m.waits || m.rank < 0) continue;
    return text + fmt::format("; rank {} (pid {} on {}) of round {} has not come", m.rank, m.request.pid,
                              m.request.host, number_);
  }
  return text;
}

}  // namespace sinew
