#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/store/store_service.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

std::string seconds(Duration d) {
  return fmt::format("{:g} s", std::chrono::duration<double>(std::chrono::round<std::chrono::milliseconds>(d)).count());
}

/// A notice is given of an exchange that may wait for this long. The error of a shorter one comes soon enough.
bool is_told_of(const ParkedRequest& request) {
  return request.allowed >= StoreService::kLate + StoreService::kLate / 2;
}

}  // namespace

void StoreService::handle(StoreSeat& from, const Bytes& request) {
  try {
    dispatch(from, request);
  } catch (const Error& e) {
    from.send(framed_reply(status_of(e)));
    if (!from.identity) from.close_after_flush();
  }
}

void StoreService::dispatch(StoreSeat& from, const Bytes& request) {
  WireReader reader(request);
  const auto op = reader.value<StoreOp>();
  const auto milliseconds = reader.value<std::uint32_t>();
  if (op == StoreOp::Hello) return hello(from, StoreIdentity::decode(reader.bytes()));
  if (!from.identity) throw Error(Code::Mismatch, "store: a request came before the client said who it is");
  WireWriter fields;
  ParkedRequest waiting;
  switch (op) {
    case StoreOp::Hello: break;
    case StoreOp::Set: {
      const std::string key = reader.text();
      table_.set(key, reader.bytes());
      break;
    }
    case StoreOp::Get:
    case StoreOp::Wait:
      waiting.wants_value = op == StoreOp::Get;
      while (reader.left() != 0) waiting.keys.push_back(reader.text());
      return park(from, std::move(waiting), milliseconds);
    case StoreOp::Add: {
      const std::string key = reader.text();
      fields.value(table_.add(key, reader.value<std::int64_t>()));
      break;
    }
    case StoreOp::CompareAndSet: {
      const std::string key = reader.text();
      std::optional<std::span<const std::byte>> expected;
      if (reader.value<std::uint8_t>() != 0) expected = reader.bytes();
      fields.value(static_cast<std::uint8_t>(table_.compare_and_set(key, expected, reader.bytes())));
      break;
    }
    case StoreOp::Erase: fields.value(static_cast<std::uint8_t>(table_.erase(reader.text()))); break;
    case StoreOp::AllGather: {
      waiting.gathering = reader.text();
      return gather(from, std::move(waiting), milliseconds, reader.bytes());
    }
    case StoreOp::RollCall: roll_call(*from.identity).require(); break;
    case StoreOp::NextRound: return next_round(from, reader.bytes(), milliseconds);
    case StoreOp::ChangeDue: fields.value(static_cast<std::uint8_t>(members().is_change_due())); break;
    default: throw Error(Code::Mismatch, fmt::format("store: no operation has number {}", static_cast<int>(op)));
  }
  from.send(framed_reply(fields.take()));
  wake();
}

void StoreService::hello(StoreSeat& from, const StoreIdentity& id) {
  if (from.identity) throw Error(Code::Mismatch, "store: a client said twice who it is");
  if (id.ranks < 0 || id.ranks > kMostRanks) {
    throw Error(Code::InvalidArgument,
                fmt::format("store: a job of {} ranks, expected {} at most", id.ranks, kMostRanks), id.rank);
  }
  if (id.rank >= 0) {
    if (options_.ranks != 0 && id.ranks != options_.ranks) {
      const Status why(
          Code::Mismatch,
          fmt::format("rank {} (pid {} on {}) was told that the job has {} ranks, but it has {}: all ranks need the "
                      "same number (WORLD_SIZE)",
                      id.rank, id.pid, id.host, id.ranks, options_.ranks),
          id.rank);
      if (id.rank < options_.ranks && !present_.contains({id.group, id.rank})) turn_away(id, why);
      why.require();
    }
    if (id.rank >= id.ranks) {
      throw Error(Code::InvalidArgument, fmt::format("store: rank {} of a job of {} ranks", id.rank, id.ranks),
                  id.rank);
    }
    const auto met = met_.find(id.group);
    if (met != met_.end() && !present_.contains({id.group, id.rank})) refuse_of_later_start(met->second);
    const auto [at, fresh] = present_.emplace(std::pair(id.group, id.rank), id);
    if (!fresh) {
      throw Error(Code::Mismatch,
                  fmt::format("two processes say that they are rank {}: pid {} on {} and pid {} on {}", id.rank,
                              at->second.pid, at->second.host, id.pid, id.host),
                  id.rank);
    }
  }
  if (const auto left = left_.find(id.group); left != left_.end()) left->second.erase(id.rank);
  from.identity = id;
  log::debug("rank {} (pid {} on {}) has come to the store", id.rank, id.pid, id.host);
  from.send(framed_reply(Bytes()));
}

Status StoreService::roll_call(const StoreIdentity& of) const {
  for (const auto& [rank, why] : lost_) {
    if (rank < of.ranks) return {Code::PeerLost, why, rank};
  }
  return first_departure(of.group, [&](int rank) { return rank != of.rank; }).value_or(Status());
}

std::optional<Status> StoreService::first_departure(const std::string& group,
                                                    const std::function<bool(int)>& counts) const {
  const auto left = left_.find(group);
  if (left == left_.end()) return std::nullopt;
  const Departure* first = nullptr;
  for (const auto& [rank, departure] : left->second) {
    if (counts(rank) && (first == nullptr || departure.number < first->number)) first = &departure;
  }
  return first == nullptr ? std::nullopt : std::optional(first->why);
}

void StoreService::park(StoreSeat& from, ParkedRequest request, std::uint32_t milliseconds) {
  request.since = Clock::now();
  request.allowed = std::chrono::milliseconds(milliseconds);
  request.deadline = milliseconds == kWaitForever ? Deadline::never() : Deadline::after(request.allowed);
  if (request.round && is_told_of(request)) next_notice_ = std::min(next_notice_, request.since + kLate);
  from.parked = std::move(request);
  parked_.emplace(from.parked->deadline.at(), &from);
  if (!from.parked->round && !from.parked->wants_round) answer_if_there(from);
}

ElasticMembers& StoreService::members() {
  if (!membership_)
    throw Error(
        Code::Unavailable,
        "SINEW_ELASTIC is set for this process, but its job has a fixed number of ranks; sinew-run alone sets "
        "SINEW_ELASTIC: unset it, or start the job by sinew-run with --nodes MIN:MAX, --min-ranks N or --spares N");
  return *membership_;
}

void StoreService::next_round(StoreSeat& from, std::span<const std::byte> request, std::uint32_t milliseconds) {
  ElasticMembers& all = members();
  if (rounds_end_) rounds_end_->require();
  if (!from.member) from.member = next_member_++;
  all.wait(*from.member, MemberRequest::decode(request));
  ParkedRequest waiting;
  waiting.wants_round = true;
  park(from, std::move(waiting), milliseconds);
  form_rounds();
}

void StoreService::end_rounds(const std::string& why) {
  rounds_end_ = Status(Code::Aborted, why);
  for (StoreSeat* c : waiting()) {
    if (c->parked->wants_round) answer(*c, framed_reply(*rounds_end_));
  }
}

/// Ends the exchanges of the round in which a member has died. The member may not have come to them yet, and the others
/// would wait for it.
void StoreService::leave_round(ElasticMembers::Id member) {
  const auto seat = membership_->seat_of(member);
  if (!seat) return;
  const Status why(Code::PeerLost, fmt::format("rank {} of round {} has ended", seat->place, seat->round), seat->place);
  if (seat->place < seat->ranks)
    turn_away({.group = group_of_ranks(seat->round), .rank = seat->place, .ranks = seat->ranks}, why);
  turn_away({.group = group_of_members(seat->round), .rank = seat->place, .ranks = seat->members}, why);
}

void StoreService::form_rounds() {
  auto formed = membership_ && !rounds_end_ ? membership_->form(Clock::now()) : std::nullopt;
  if (!formed) return;
  for (const std::string& group :
       {group_of_ranks(formed->round.number - 1), group_of_members(formed->round.number - 1)})
    left_.erase(group);
  for (StoreSeat* c : waiting()) {
    if (!c->member || !c->parked->wants_round) continue;
    const auto at = std::ranges::find(formed->ids, *c->member);
    if (at == formed->ids.end()) continue;
    formed->round.place = static_cast<int>(at - formed->ids.begin());
    answer(*c, framed_reply(formed->round.encode()));
  }
}

void StoreService::gather(StoreSeat& from, ParkedRequest request, std::uint32_t milliseconds,
                          std::span<const std::byte> mine) {
  const StoreIdentity& id = *from.identity;
  if (id.rank < 0) throw Error(Code::InvalidArgument, "store: only a client with a rank takes part in an all-gather");
  request.round = table_.join(request.gathering, id.rank, id.ranks, mine);
  const std::shared_ptr<Gathering> round = request.round;
  park(from, std::move(request), milliseconds);
  if (round->complete()) {
    if (options_.meets_once) met_.try_emplace(id.group, who_is_there(id.group));
    return deliver(*round);
  }
  // The others were judged when who does not come was lost or left.
  const std::optional<Status> end = end_of(*round, id.group);
  if (end) fail_rounds([&](const StoreSeat&, const Gathering& r) { return &r == round.get() ? end : std::nullopt; });
}

std::optional<Status> StoreService::end_of(const Gathering& round, const std::string& group) const {
  for (const auto& [rank, why] : lost_) {
    if (rank < round.ranks() && !round.has(rank)) return Status(Code::PeerLost, why, rank);
  }
  return first_departure(group, [&](int rank) { return !round.has(rank); });
}

void StoreService::deliver(const Gathering& round) {
  WireWriter fields;
  fields.value(static_cast<std::uint32_t>(round.ranks()));
  for (int r = 0; r < round.ranks(); ++r) fields.bytes(round.part(r));
  const auto reply = framed_reply(fields.take());
  for (StoreSeat* c : waiting()) {
    if (c->parked->round.get() == &round) answer(*c, reply);
  }
}

void StoreService::wake() {
  for (auto at = parked_.begin(); at != parked_.end();) {
    StoreSeat& waiter = *(at++)->second;  // which leaves the set if it is answered
    if (!waiter.parked->round && !waiter.parked->wants_round) answer_if_there(waiter);
  }
}

void StoreService::answer_if_there(StoreSeat& waiter) {
  const std::vector<std::string>& keys = waiter.parked->keys;
  if (!std::ranges::all_of(keys, [this](const std::string& k) { return table_.find(k) != nullptr; })) return;
  WireWriter fields;
  if (waiter.parked->wants_value && !keys.empty()) fields.bytes(*table_.find(keys.front()));
  answer(waiter, framed_reply(fields.take()));
}

void StoreService::answer(StoreSeat& to, const std::shared_ptr<const Bytes>& reply) {
  parked_.erase({to.parked->deadline.at(), &to});
  to.parked.reset();
  to.send(reply);
}

void StoreService::fail_rounds(
    const std::function<std::optional<Status>(const StoreSeat&, const Gathering&)>& verdict) {
  for (StoreSeat* c : waiting()) {
    if (!c->parked->round) continue;
    if (const auto status = verdict(*c, *c->parked->round)) {
      table_.abandon(c->parked->gathering, c->parked->round.get());
      answer(*c, framed_reply(*status));
    }
  }
}

void StoreService::forget(StoreSeat& gone, const std::string& how) {
  if (gone.parked) parked_.erase({gone.parked->deadline.at(), &gone});
  gone.parked.reset();
  if (const auto member = std::exchange(gone.member, std::nullopt)) {
    leave_round(*member);
    membership_->leave(*member);
    form_rounds();
  }
  if (!gone.identity || gone.identity->rank < 0) return;
  const StoreIdentity id = *std::exchange(gone.identity, std::nullopt);
  present_.erase({id.group, id.rank});
  const std::string what = how.empty() ? "left before it came to the exchange" : "is cut off: " + how;
  const Status why(Code::PeerLost, fmt::format("rank {} (pid {} on {}) {}", id.rank, id.pid, id.host, what), id.rank);
  turn_away(id, why, !how.empty());
  forget_group_without_ranks(id);
}

void StoreService::forget_group_without_ranks(const StoreIdentity& id) {
  const auto left = left_.find(id.group);
  if (left != left_.end() && left->second.size() == static_cast<std::size_t>(id.ranks)) left_.erase(left);
}

/// Ends the waits for this rank. It may come again. needs_answer: also ends the rounds to which the rank has come,
/// because their answers cannot reach it.
void StoreService::turn_away(const StoreIdentity& id, const Status& why, bool needs_answer) {
  left_[id.group].emplace(id.rank, Departure{departures_++, why, id.pid == ::getpid() && id.host == host_name()});
  fail_rounds([&](const StoreSeat& waiter, const Gathering& round) -> std::optional<Status> {
    if (waiter.identity->group != id.group || (round.has(id.rank) && !needs_answer)) return std::nullopt;
    return why;
  });
}

bool StoreService::has_untold_ranks() const {
  if (!options_.meets_once) return false;
  for (const auto& [group, departures] : left_) {
    const auto refused = [](const auto& entry) { return entry.second.why.code() == Code::Mismatch; };
    const bool all_left = departures.size() >= static_cast<std::size_t>(options_.ranks);
    if (!all_left && !met_.contains(group) && std::ranges::any_of(departures, refused)) return true;
    const auto present = present_.lower_bound({group, 0});
    const bool any_present = present != present_.end() && present->first.first == group;
    if (any_present && !std::ranges::all_of(departures, [](const auto& entry) { return entry.second.is_here; }))
      return true;
  }
  return false;
}

void StoreService::require_unmet() const {
  if (!met_.empty()) refuse_of_later_start(met_.begin()->second);
}

void StoreService::refuse_of_later_start(const std::string& met_on) {
  throw Error(Code::Unavailable, fmt::format("the store there is of a job that has started already, on {}", met_on), 0);
}

void StoreService::lose(int rank, const std::string& why) {
  lost_.emplace(rank, why);
  fail_rounds([&](const StoreSeat&, const Gathering& round) -> std::optional<Status> {
    if (rank >= round.ranks() || round.has(rank)) return std::nullopt;
    return Status(Code::PeerLost, why, rank);
  });
}

std::string StoreService::strangers(const StoreSeat& waiter) const {
  const StoreIdentity& id = *waiter.identity;
  std::vector<int> missing;
  for (int r = 0; r < id.ranks; ++r) {
    if (!present_.contains({id.group, r})) missing.push_back(r);
  }
  return missing.empty() ? "" : fmt::format("; {} of {} never came", name_ranks(missing), id.ranks);
}

std::vector<StoreSeat*> StoreService::waiting() const {
  std::vector<StoreSeat*> all;
  all.reserve(parked_.size());
  for (const auto& entry : parked_) all.push_back(entry.second);
  return all;
}

Status StoreService::late(const StoreSeat& waiter) const {
  const ParkedRequest& request = *waiter.parked;
  if (request.round) {
    return {Code::Timeout, fmt::format("all-gather '{}': {} of {} did not come within {}", request.gathering,
                                       request.round->absent(), request.round->ranks(), seconds(request.allowed))};
  }
  if (request.wants_round)
    return {Code::Timeout,
            fmt::format("no round was formed within {}: {}", seconds(request.allowed), membership_->waits_for())};
  std::string key;
  for (const std::string& k : request.keys) {
    if (key.empty() && table_.find(k) == nullptr) key = k;
  }
  return {Code::Timeout,
          fmt::format("store: key '{}' was not set within {}{}", key, seconds(request.allowed), strangers(waiter))};
}

/// The ranks of a group that are connected, by their hosts: "n0 (rank 0), n2 (ranks 4, 5)".
std::string StoreService::who_is_there(const std::string& group) const {
  constexpr std::size_t kMostHosts = 8;
  std::map<std::string, std::vector<int>> ranks_of;
  for (auto at = present_.lower_bound({group, 0}); at != present_.end() && at->first.first == group; ++at)
    ranks_of[at->second.host].push_back(at->first.second);
  std::string text;
  std::size_t named = 0;
  for (const auto& [host, ranks] : ranks_of) {
    if (named++ == kMostHosts) return fmt::format("{} and {} more hosts", text, ranks_of.size() - kMostHosts);
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host, name_ranks(ranks));
  }
  return text.empty() ? "none is connected now" : text;
}

Deadline StoreService::tell_who_is_late() {
  if (!options_.notice) return Deadline::never();
  const auto now = Clock::now();
  if (now < next_notice_) return Deadline(next_notice_);
  next_notice_ = Clock::time_point::max();
  for (const auto& [deadline, c] : parked_) {
    ParkedRequest& request = *c->parked;
    if (!request.round || request.round->is_told || !is_told_of(request)) continue;
    if (now < request.since + kLate) {
      next_notice_ = std::min(next_notice_, request.since + kLate);
      continue;
    }
    request.round->is_told = true;
    const StoreIdentity& id = *c->identity;
    std::vector<int> missing;
    for (int r = 0; r < id.ranks; ++r) {
      if (!request.round->has(r) && !present_.contains({id.group, r})) missing.push_back(r);
    }
    if (missing.empty()) continue;
    const std::string refused = refused_ ? refused_() : "";
    options_.notice(fmt::format("{} of {} {} not come within {}; connected are {}{}{}", name_ranks(missing), id.ranks,
                                missing.size() == 1 ? "has" : "have", seconds(kLate), who_is_there(id.group),
                                refused.empty() ? "" : "; refused were connections from ", refused));
  }
  return Deadline(next_notice_);
}

Deadline StoreService::expire() {
  form_rounds();
  Deadline next = membership_ ? membership_->next_look() : Deadline::never();
  next = Deadline(std::min(next.at(), tell_who_is_late().at()));
  const auto now = Clock::now();
  while (!parked_.empty() && parked_.begin()->first <= now) {
    StoreSeat* const c = parked_.begin()->second;
    const Status status = late(*c);
    const std::shared_ptr<Gathering> round = c->parked->round;
    if (!round) {
      if (c->parked->wants_round) membership_->leave(*c->member);
      answer(*c, framed_reply(status));
      continue;
    }
    fail_rounds(
        [&](const StoreSeat&, const Gathering& r) { return &r == round.get() ? std::optional(status) : std::nullopt; });
  }
  return parked_.empty() ? next : Deadline(std::min(next.at(), parked_.begin()->first));
}

}  // namespace sinew
