#include "link_table.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sinew::doctor {
namespace {

bool same_network(const LinkResult& a, const LinkResult& b) {
  return a.link.from.prefix_bits == b.link.from.prefix_bits &&
         a.link.from.address.shares_network(b.link.from.address, a.link.from.prefix_bits);
}

}  // namespace

LinkTable::LinkTable(std::span<const std::string> hosts, std::span<const LinkResult> results)
    : hosts_(hosts), results_(results) {
  for (const LinkResult& r : results) ways_[{r.from_host, r.to_host}].push_back(&r);
}

std::string LinkTable::text(const LinkResult& way) const {
  return fmt::format("{} {} -> {} {}", name(way.from_host), way.link.from.text(), name(way.to_host),
                     way.link.to.text());
}

bool LinkTable::touches(int host) const {
  return std::ranges::any_of(
      ways_, [host](const auto& ways) { return ways.first.first == host || ways.first.second == host; });
}

const LinkResult* LinkTable::back_of(const LinkResult& way) const {
  const auto ways = ways_.find({way.to_host, way.from_host});
  if (ways == ways_.end()) return nullptr;
  const auto back = std::ranges::find_if(ways->second, [&way](const LinkResult* other) {
    return other->link.from.ip() == way.link.to.ip() && other->link.to.ip() == way.link.from.ip();
  });
  return back == ways->second.end() ? nullptr : *back;
}

bool LinkTable::joins(int a, int b) const {
  const auto ways = ways_.find({a, b});
  return ways != ways_.end() && std::ranges::any_of(ways->second, [this](const LinkResult* r) {
           const LinkResult* back = back_of(*r);
           return r->state == LinkState::Carries && back != nullptr && back->state == LinkState::Carries;
         });
}

std::vector<std::vector<const LinkResult*>> by_network(std::span<const LinkResult> results) {
  std::vector<std::vector<const LinkResult*>> networks;
  for (const LinkResult& r : results) {
    if (r.link.routed) continue;
    const auto mine =
        std::ranges::find_if(networks, [&r](const auto& others) { return same_network(r, *others.front()); });
    (mine == networks.end() ? networks.emplace_back() : *mine).push_back(&r);
  }
  return networks;
}

}  // namespace sinew::doctor
