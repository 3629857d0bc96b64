#include <algorithm>
#include <cassert>
#include <cmath>

#include <sinew/collectives/simulator/traffic.hpp>

namespace sinew {
namespace {

/// Flows that end together do so in one event, whatever rounding made of their times.
constexpr double kSameBytes = 1e-3;
constexpr double kSamePart = 1e-12;

}  // namespace

Traffic::Traffic(const std::vector<double>& bytes_per_s) : links_(bytes_per_s.size()) {
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].bytes_per_s = bytes_per_s[l];
}

int Traffic::add_path(const std::vector<Use>& uses) {
  assert(!uses.empty());
  Path& added = paths_.emplace_back();
  added.first_use = static_cast<std::uint32_t>(uses_.size());
  added.uses = static_cast<std::uint32_t>(uses.size());
  uses_.insert(uses_.end(), uses.begin(), uses.end());
  seats_.resize(uses_.size());
  return static_cast<int>(paths_.size()) - 1;
}

void Traffic::mark_changed(int p) {
  if (path(p).changed) return;
  path(p).changed = true;
  changed_.push_back(p);
}

void Traffic::join_links(int p) {
  Path& joined = path(p);
  joined.active = true;
  for (std::uint32_t u = joined.first_use; u < joined.first_use + joined.uses; ++u) {
    std::vector<Member>& members = link(uses_[u].link).members;
    seats_[u] = static_cast<std::uint32_t>(members.size());
    members.push_back({p, u - joined.first_use});
  }
}

void Traffic::leave_links(int p) {
  Path& left = path(p);
  left.active = false;
  for (std::uint32_t u = left.first_use; u < left.first_use + left.uses; ++u) {
    std::vector<Member>& members = link(uses_[u].link).members;
    const std::uint32_t seat = seats_[u];
    members[seat] = members.back();
    seats_[path(members[seat].path).first_use + members[seat].use] = seat;
    members.pop_back();
  }
}

void Traffic::advance(Path& p, Seconds now) const {
  p.carried += p.rate * (now - p.since);
  p.since = now;
}

void Traffic::start(int p, double bytes, std::uint64_t token, Seconds now) {
  Path& with = path(p);
  if (with.flows.empty()) {
    with.carried = 0;
    with.since = now;
  } else {
    advance(with, now);
  }
  if (!with.active) {
    with.rate = 0;
    join_links(p);
  }
  with.flows.emplace(with.carried + bytes, token);
  mark_changed(p);
}

void Traffic::touch(int l) {
  if (link(l).seen == round_) return;
  link(l).seen = round_;
  near_links_.push_back(l);
}

/// Follows a link to the paths on it and on to their links.
void Traffic::reach(int first) {
  near_links_.clear();
  near_paths_.clear();
  touch(first);
  for (std::size_t next = 0; next < near_links_.size(); ++next) {
    for (const Member& m : link(near_links_[next]).members) {
      if (path(m.path).seen == round_) continue;
      path(m.path).seen = round_;
      near_paths_.push_back(m.path);
      for (const Use& use : uses(path(m.path))) touch(use.link);
    }
  }
}

/// The link with the least for each of its flows gives it to them, and so on with what is left.
void Traffic::share() {
  shares_.clear();
  for (const int l : near_links_) {
    Link& of = link(l);
    of.left = of.bytes_per_s;
    of.asked = 0;
    of.open = static_cast<std::uint32_t>(of.members.size());
    for (const Member& m : of.members) of.asked += asks(path(m.path), m.use);
    if (of.open > 0) shares_.emplace_back(of.left / of.asked, l);
  }
  for (const int p : near_paths_) path(p).open = true;
  std::ranges::make_heap(shares_, std::greater<>());
  while (!shares_.empty()) {
    std::ranges::pop_heap(shares_, std::greater<>());
    const auto [least, l] = shares_.back();
    shares_.pop_back();
    Link& of = link(l);
    if (of.open == 0) continue;
    const double share = std::max(of.left / of.asked, least);  // which only rounding makes less
    if (share > least * (1 + kSamePart)) {
      shares_.emplace_back(share, l);
      std::ranges::push_heap(shares_, std::greater<>());
      continue;
    }
    for (const Member& m : of.members) {
      if (path(m.path).open) give(path(m.path), share);
    }
  }
}

void Traffic::give(Path& to, double rate) {
  to.open = false;
  to.given = rate;
  for (std::uint32_t u = 0; u < to.uses; ++u) {
    Link& of = link(uses_[to.first_use + u].link);
    of.left -= rate * asks(to, u);
    of.asked -= asks(to, u);
    --of.open;
  }
}

void Traffic::expect_end(int p, Seconds now) {
  Path& of = path(p);
  ends_.push(now + std::max(of.flows.top().first - of.carried, 0.0) / of.rate, {p, ++of.version});
}

void Traffic::settle(Seconds now) {
  ++round_;
  seeds_.clear();
  for (const int p : changed_) {
    Path& of = path(p);
    of.changed = false;
    if (of.flows.size() == of.shared) {
      if (of.shared > 0) expect_end(p, now);
      continue;
    }
    of.shared = static_cast<std::uint32_t>(of.flows.size());
    of.resized = of.shared > 0;
    for (const Use& use : uses(of)) seeds_.push_back(use.link);
    if (of.flows.empty()) leave_links(p);
  }
  changed_.clear();
  for (const int l : seeds_) {
    if (link(l).seen == round_) continue;
    reach(l);
    share();
    give_rates(now);
  }
}

/// Those that keep theirs keep their ends, too.
void Traffic::give_rates(Seconds now) {
  for (const int p : near_paths_) {
    Path& of = path(p);
    if (!of.resized && std::abs(of.given - of.rate) <= kSamePart * of.rate) continue;
    of.resized = false;
    advance(of, now);
    of.rate = of.given;
    expect_end(p, now);
  }
}

Seconds Traffic::next_end() {
  while (!ends_.empty() && ends_.next().version != path(ends_.next().path).version) ends_.pop();
  return ends_.empty() ? kNever : ends_.at();
}

void Traffic::take_ended(Seconds now, std::vector<std::uint64_t>& tokens) {
  while (next_end() <= now * (1 + kSamePart)) {
    const int p = ends_.next().path;
    ends_.pop();
    Path& of = path(p);
    advance(of, now);
    const double carried = std::max(of.carried * (1 + kSamePart) + kSameBytes, of.flows.top().first);
    while (!of.flows.empty() && of.flows.top().first <= carried) {
      tokens.push_back(of.flows.top().second);
      of.flows.pop();
    }
    ++of.version;
    mark_changed(p);
  }
}

}  // namespace sinew
