#include <algorithm>
#include <cassert>

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
  Path added;
  added.uses = uses;
  added.seats.resize(uses.size());
  paths_.push_back(std::move(added));
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
  for (std::size_t u = 0; u < joined.uses.size(); ++u) {
    std::vector<Member>& members = link(joined.uses[u].link).members;
    joined.seats[u] = members.size();
    members.push_back({p, u});
  }
}

void Traffic::leave_links(int p) {
  Path& left = path(p);
  left.active = false;
  for (std::size_t u = 0; u < left.uses.size(); ++u) {
    std::vector<Member>& members = link(left.uses[u].link).members;
    const std::size_t seat = left.seats[u];
    members[seat] = members.back();
    path(members[seat].path).seats[members[seat].use] = seat;
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

/// Follows links to the paths on them and on to their links.
void Traffic::reach() {
  for (std::size_t next = 0; next < near_links_.size(); ++next) {
    for (const Member& m : link(near_links_[next]).members) {
      if (path(m.path).seen == round_) continue;
      path(m.path).seen = round_;
      near_paths_.push_back(m.path);
      for (const Use& use : path(m.path).uses) touch(use.link);
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
    of.open = of.members.size();
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
  to.rate = rate;
  for (std::size_t u = 0; u < to.uses.size(); ++u) {
    Link& of = link(to.uses[u].link);
    of.left -= rate * asks(to, u);
    of.asked -= asks(to, u);
    --of.open;
  }
}

void Traffic::expect_end(int p, Seconds now) {
  Path& of = path(p);
  ends_.push({now + std::max(of.flows.top().first - of.carried, 0.0) / of.rate, p, ++of.version});
}

void Traffic::settle(Seconds now) {
  ++round_;
  near_links_.clear();
  near_paths_.clear();
  for (const int p : changed_) {
    Path& of = path(p);
    of.changed = false;
    if (of.flows.size() == of.shared) {
      if (of.shared > 0) expect_end(p, now);
      continue;
    }
    of.shared = of.flows.size();
    for (const Use& use : of.uses) touch(use.link);
    if (of.flows.empty()) leave_links(p);
  }
  changed_.clear();
  if (near_links_.empty()) return;
  reach();
  for (const int p : near_paths_) advance(path(p), now);
  share();
  for (const int p : near_paths_) expect_end(p, now);
}

Seconds Traffic::next_end() {
  while (!ends_.empty() && ends_.top().version != path(ends_.top().path).version) ends_.pop();
  if (ends_.empty()) return kNever;
  return ends_.top().at;
}

void Traffic::take_ended(Seconds now, std::vector<std::uint64_t>& tokens) {
  while (next_end() <= now * (1 + kSamePart)) {
    const int p = ends_.top().path;
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
