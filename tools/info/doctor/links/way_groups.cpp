#include "way_groups.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace sinew::doctor {
namespace {

using Which = WayGroup::Which;

/// Of one kind, by what they have in common.
template <class Key>
class Groups {
 public:
  explicit Groups(Which which) : which_(which) {}

  void add(const Key& key, int host, const std::string& name, const LinkResult& way) {
    WayGroup& group = groups_[key];
    if (group.ways.empty()) group = {name, host, which_, {}};
    group.ways.push_back(&way);
  }
  void move_to(std::vector<WayGroup>& all) {
    for (auto& [key, group] : groups_) all.push_back(std::move(group));
  }

 private:
  Which which_;
  std::map<Key, WayGroup> groups_;
};

/// The widest first.
std::vector<WayGroup> all_groups(const LinkTable& table) {
  using Address = std::pair<int, std::string>;
  Groups<int> of_hosts(Which::Both);
  Groups<Address> of_addresses(Which::Both);
  Groups<Address> out(Which::Out);
  Groups<Address> in(Which::In);
  for (const LinkResult& r : table.results()) {
    for (const bool leaves : {true, false}) {
      const int host = leaves ? r.from_host : r.to_host;
      const HostAddress& address = leaves ? r.link.from : r.link.to;
      const Address key{host, address.ip()};
      const std::string name = fmt::format("{} {}", table.name(host), address.text());
      of_hosts.add(host, host, table.name(host), r);
      of_addresses.add(key, host, name, r);
      (leaves ? out : in).add(key, host, name, r);
    }
  }
  std::vector<WayGroup> all;
  for (auto& ways : by_network(table.results())) {
    std::string name = "the network of " + ways.front()->link.from.text();
    all.push_back({std::move(name), -1, Which::Both, std::move(ways)});
  }
  of_hosts.move_to(all);
  of_addresses.move_to(all);
  out.move_to(all);
  in.move_to(all);
  return all;
}

std::set<int> hosts_of(std::span<const LinkResult* const> ways) {
  std::set<int> hosts;
  for (const LinkResult* r : ways) hosts.insert({r->from_host, r->to_host});
  return hosts;
}

}  // namespace

std::string WayGroup::text() const {
  const char* whence = host < 0 ? "" : which == Which::Both ? " to and from" : which == Which::Out ? " to" : " from";
  return fmt::format("{} ways{}{}", ways.size(), whence, host < 0 ? "" : " other hosts");
}

std::vector<std::string> WayGroup::blamed(const LinkTable& table) const {
  if (host >= 0) return {table.name(host)};
  std::vector<std::string> names;
  for (const int h : hosts_of(ways)) names.push_back(table.name(h));
  return names;
}

std::vector<WayGroup> groups_with_fault(const LinkTable& table, const std::function<bool(const LinkResult&)>& fault) {
  constexpr std::size_t kEnough = 3;
  std::vector<WayGroup> found;
  std::set<const LinkResult*> said;
  for (WayGroup& group : all_groups(table)) {
    const bool faulty = std::ranges::all_of(group.ways, [&](const LinkResult* r) { return fault(*r); });
    const bool is_said = std::ranges::all_of(group.ways, [&](const LinkResult* r) { return said.contains(r); });
    if (!faulty || is_said || hosts_of(group.ways).size() < kEnough) continue;
    said.insert(group.ways.begin(), group.ways.end());
    found.push_back(std::move(group));
  }
  return found;
}

}  // namespace sinew::doctor
