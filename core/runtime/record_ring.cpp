#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/runtime/record_ring.hpp>

namespace sinew {

namespace {

template <std::size_t N>
std::string_view text_in(const char (&filled_up)[N]) noexcept {
  return {filled_up, ::strnlen(filled_up, N)};
}

template <std::size_t N>
void put(std::string_view text, char (&to)[N]) noexcept {
  std::memcpy(to, text.data(), std::min(text.size(), N));
}

/// Such a text as put() leaves it.
template <std::size_t N>
std::string_view fitting(std::string_view text, const char (&)[N]) noexcept {
  return text.substr(0, N);
}

/// All communicators without a name that ever have the same id share counters: there may be very many of them.
std::string name_for_counters(const Group& group) {
  return group.name.empty() ? fmt::format("communicator {}", group.communicator) : group.name;
}

}  // namespace

RecordRing::RecordRing(std::byte* memory, int rank) : page_(reinterpret_cast<RecordPage*>(memory)) {
  page_->rank.store(rank, std::memory_order_relaxed);
  page_->pid.store(::getpid(), std::memory_order_relaxed);
  page_->magic.store(RecordPage::kMagic, std::memory_order_release);
}

std::string site_text(const std::source_location& where, const char* label) {
  if (where.line() == 0) return label == nullptr ? "a place that is not known" : label;
  // Options made without braces have recorded a line of call_options.hpp. Only the end of the path is compared, because
  // programs may include that header from another folder.
  const bool is_named = !std::string_view(where.file_name()).ends_with("sinew/core/call/call_options.hpp");
  const std::string place =
      is_named ? fmt::format("{}:{}", where.file_name(), where.line()) : "a place that its CallOptions do not name";
  return label == nullptr ? place : fmt::format("{} for {}", place, label);
}

std::uint16_t RecordRing::labelled_site(const std::source_location& where, const char* label) noexcept {
  const std::string_view text(label);
  Labelled& known = labelled_[(place_of(where) ^ std::hash<std::string_view>{}(text)) % kKnown];
  // Labels are compared by text, not by address: a new label may lie where an earlier one was.
  if (!known.is(where) || known.label != text) {
    known.label = text;
    learn(known, where, label);
  }
  return known.site;
}

void RecordRing::learn(Known& known, const std::source_location& where, const char* label) noexcept {
  const auto at = site_named(site_text(where, label));
  known.file = file_of(where), known.line = where.line(), known.site = at == sites_.end() ? 0 : at->second;
}

std::map<std::string, std::uint16_t>::iterator RecordRing::site_named(const std::string& text) noexcept {
  const auto [at, fresh] = sites_.try_emplace(text, static_cast<std::uint16_t>(sites_.size() + 1));
  if (!fresh) return at;
  if (at->second >= RecordPage::kSites) {
    sites_.erase(at);
    return sites_.end();
  }
  SiteText& site = page_->sites[at->second];
  const std::size_t length = std::min(text.size(), sizeof site.text);  // of a long path the end says more
  std::memcpy(site.text, text.data() + text.size() - length, length);
  site.length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
  return at;
}

const char* RecordRing::rename(const OpenRecord& call, const std::string& site) noexcept {
  const auto at = site_named(site);
  if (at == sites_.end()) return nullptr;
  if (call.record != nullptr && call.record->serial.load(std::memory_order_relaxed) == call.serial)
    call.record->site.store(at->second, std::memory_order_relaxed);
  return at->first.c_str();
}

void RecordRing::join(const Group& group) noexcept {
  if (group.identity == 0) {
    page_->world_ranks.store(group.size(), std::memory_order_release);
    return;
  }
  if (memberships_taken_.all()) return;
  while (memberships_taken_.test(next_membership_))
    next_membership_ = (next_membership_ + 1) % RecordPage::kMemberships;
  memberships_taken_.set(next_membership_);
  Membership& membership = page_->memberships[next_membership_];
  next_membership_ = (next_membership_ + 1) % RecordPage::kMemberships;
  membership.identity.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  membership.ranks.store(group.size(), std::memory_order_relaxed);
  membership.place.store(group.rank, std::memory_order_relaxed);
  std::memset(membership.name, 0, sizeof membership.name);
  std::memcpy(membership.name, group.name.data(), std::min(group.name.size(), sizeof membership.name));
  membership.identity.store(group.identity, std::memory_order_release);
}

void RecordRing::leave(std::uint64_t communicator) noexcept {
  for (std::size_t i = 0; i < RecordPage::kMemberships; ++i) {
    if (page_->memberships[i].identity.load(std::memory_order_relaxed) == communicator) memberships_taken_.reset(i);
  }
}

CallCounters& RecordRing::counters_of(const Group& group, Collective collective, std::string_view transport) noexcept {
  const std::string name = name_for_counters(group);
  const auto kind = static_cast<std::uint8_t>(collective);
  for (std::size_t i = 1; i < counters_used_; ++i) {
    CallCounters& c = page_->counters[i];
    if (c.collective == kind && text_in(c.transport) == fitting(transport, c.transport) &&
        text_in(c.communicator) == fitting(name, c.communicator))
      return c;
  }
  const bool is_full = counters_used_ == RecordPage::kCounters;
  CallCounters& c = page_->counters[is_full ? 0 : counters_used_++];
  c.collective = is_full ? CallCounters::kAnyCollective : kind;
  put(is_full ? "other" : transport, c.transport);
  put(is_full ? "other" : name, c.communicator);
  c.ready.store(1, std::memory_order_release);
  return c;
}

void RecordRing::count_failed(const Group& group, Collective collective) noexcept {
  const std::string name = name_for_counters(group);
  for (std::size_t i = 1; i < counters_used_; ++i) {
    CallCounters& c = page_->counters[i];
    if (c.collective == static_cast<std::uint8_t>(collective) &&
        text_in(c.communicator) == fitting(name, c.communicator))
      return c.count_failed();
  }
  counters_of(group, collective, "").count_failed();
}

std::vector<CountersSeen> RecordReader::counters() const {
  std::vector<CountersSeen> all;
  for (const CallCounters& c : page_->counters) {
    if (c.ready.load(std::memory_order_acquire) == 0) continue;
    const bool is_rest = c.collective == CallCounters::kAnyCollective;
    all.push_back({.communicator = std::string(text_in(c.communicator)),
                   .collective = std::string(is_rest ? "other" : name_of(static_cast<Collective>(c.collective))),
                   .transport = std::string(text_in(c.transport)),
                   .calls = c.calls.load(std::memory_order_relaxed),
                   .bytes = c.bytes.load(std::memory_order_relaxed),
                   .failed = c.failed.load(std::memory_order_relaxed)});
  }
  return all;
}

std::optional<MembershipSeen> RecordReader::membership(std::size_t index) const noexcept {
  const Membership& s = page_->memberships[index];
  MembershipSeen seen{.communicator = s.identity.load(std::memory_order_acquire)};
  seen.ranks = s.ranks.load(std::memory_order_relaxed);
  seen.place = s.place.load(std::memory_order_relaxed);
  seen.name.assign(s.name, ::strnlen(s.name, sizeof s.name));
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool is_whole = seen.communicator != 0 && s.identity.load(std::memory_order_relaxed) == seen.communicator;
  return is_whole && seen.place >= 0 && seen.place < seen.ranks ? std::optional(seen) : std::nullopt;
}

std::optional<CallSeen> RecordReader::at(std::size_t place) const noexcept {
  const CallRecord& r = page_->records[place];
  CallSeen seen;
  seen.serial = r.serial.load(std::memory_order_acquire);
  if (seen.serial == 0) return std::nullopt;
  seen.communicator = r.communicator.load(std::memory_order_relaxed);
  seen.fingerprint = r.fingerprint.load(std::memory_order_relaxed);
  seen.history = r.history.load(std::memory_order_relaxed);
  seen.sequence = r.sequence.load(std::memory_order_relaxed);
  seen.peer = r.peer.load(std::memory_order_relaxed);
  seen.site = r.site.load(std::memory_order_relaxed);
  seen.id = r.id.load(std::memory_order_relaxed);
  seen.entered = r.entered.load(std::memory_order_relaxed);
  seen.completed = r.completed.load(std::memory_order_acquire);
  seen.outcome = r.outcome.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (r.serial.load(std::memory_order_relaxed) != seen.serial) return std::nullopt;
  return seen;
}

namespace {

/// The record with the highest serial that `wanted` accepts.
template <class Wanted>
std::optional<CallSeen> newest(const RecordReader& reader, Wanted wanted) noexcept {
  std::optional<CallSeen> best;
  for (std::size_t i = 0; i < RecordPage::kRecords; ++i) {
    const auto seen = reader.at(i);
    if (seen && wanted(*seen) && (!best || seen->serial > best->serial)) best = seen;
  }
  return best;
}

}  // namespace

std::optional<CallSeen> RecordReader::find(std::uint64_t communicator, std::uint32_t sequence) const noexcept {
  return newest(*this, [&](const CallSeen& s) {
    return s.communicator == communicator && s.sequence == sequence && !s.message();
  });
}

std::optional<CallSeen> RecordReader::latest(std::uint64_t communicator) const noexcept {
  const auto on = newest(*this, [&](const CallSeen& s) { return s.communicator == communicator && !s.message(); });
  return on ? on : newest(*this, [&](const CallSeen& s) { return s.communicator == communicator; });
}

std::optional<CallSeen> RecordReader::latest() const noexcept {
  return newest(*this, [](const CallSeen&) { return true; });
}

std::string RecordReader::communicator(const CallSeen& call) const {
  for (std::size_t i = 0; call.communicator != 0 && i < RecordPage::kMemberships; ++i) {
    if (page_->memberships[i].identity.load(std::memory_order_relaxed) != call.communicator) continue;
    const auto at = membership(i);
    if (at && at->communicator == call.communicator && !at->name.empty())
      return fmt::format("{} of {}", at->name, at->ranks);
  }
  const int world_ranks = page_->world_ranks.load(std::memory_order_acquire);
  if (call.communicator == 0 && world_ranks > 0) return fmt::format("world of {}", world_ranks);
  return fmt::format("communicator {}", call.id);
}

std::string RecordReader::site(std::uint16_t index) const {
  if (index == 0 || index >= RecordPage::kSites) return "a place that is not in the table";
  const SiteText& site = page_->sites[index];
  const std::size_t length = std::min<std::size_t>(site.length.load(std::memory_order_acquire), sizeof site.text);
  return {site.text, length};
}

}  // namespace sinew
